"""Receipts: what each member says that it has, from which follow retransmission, stability and suspicion.

* `schedule`: when a member sends its own, and which members it misses;
* `peers`: what the others have, by theirs; `passing`: receipts of others, passed on;
* `lineage`: which receipts count, where a disk has lost its tail;
* `relays`: of whose messages a member asks others for, by what these have.

Imports `ledger`, `channel`, `transfer`.
"""
