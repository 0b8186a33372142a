"""What one incarnation hands to another: a state to a joiner, to a returner what its former incarnation had.

* `handover`: the state and its bytes; `admission`: to which joiners it goes, and when (the contact's side);
* `carrying`: operations that a returner sends again, and what all members conclude from it;
* `reading`: what a program without a state has missed.

Imports `ledger`, `channel`.
"""
