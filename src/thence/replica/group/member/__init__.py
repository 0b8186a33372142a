"""One incarnation of a process in a group, put together of the parts below it.

* `member`: what it sends, and when; `receiving`: what comes; `delivery`: what a delivery does;
* `membership`: changes of the view; `stability`: what every member has, and what follows;
* `tag_book`: which operations a message brought; `rows`: the trace.

Imports `ledger`, `channel`, `transfer`, `receipts`.
"""
