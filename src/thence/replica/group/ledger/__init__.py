"""What an incarnation has delivered: as it runs (`ledger`), and as a value to be written down (`state`).

* `ledger`: names and counters, order and window, over the log;
* `backlog`: what is no longer in memory, read from the log a little in each step;
* `state`: what a member is, as a value; `state_codec`: its bytes;
* `payloads`: the bodies of messages about the group, and the notes that a log keeps of joiners.

The lowest of the sub-packages: it imports none of its siblings.
"""
