"""How one incarnation of a process follows another.

* `succession`: which one runs (`stages`), and what follows it;
* `joining`: the process' way in; `parting`: its way out, and members that the group goes on without;
* `incarnations`: numbers, logs and checkpoints on the disk; `checkpoints`: when one is made;
* `returning`: what an incarnation begins with.

Imports `ledger`, `channel`, `transfer`, `receipts`, `member`.
"""
