"""A process of a group: its incarnations, what they tell each other, and how one follows another.

docs/protocols/membership.md has the rules. Seven sub-packages, each of which imports only those below it
(`tests/architecture/test_groups.py` checks that); each says what it has:

* `process`: what a process' program, its operator and other processes ask of it;
* `lifecycle`: which incarnation runs, and how one follows another;
* `member`: one incarnation, put together of the parts below;
* `receipts`: what each member says that it has;
* `transfer`: what one incarnation hands to another: states, and operations sent again;
* `channel`: the links of an incarnation;
* `ledger`: what it has delivered, and its state as a value.

All of them use `settings` and `surroundings` (what a member needs from others).
"""
