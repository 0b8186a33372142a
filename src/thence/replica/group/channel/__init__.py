"""The links of one incarnation: a window of messages in order, resumed by what the other end has.

* `directions`: what is sent and what comes over one link (`stages`); `links`: all links of an incarnation;
* `vicinity`: which processes there should be links to.

Imports `ledger`.
"""
