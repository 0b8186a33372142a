"""A process of a group, as its program, its operator, its driver and other processes see it.

* `node`: the machine (`replica.contract`) that steps run;
* `dispatch`: what other processes say, and which part that is for; `speaking`: which of them may say what;
* `replay`: events once more, for a program that names a position.

The highest of the sub-packages: it may import all others, and none imports it.
"""
