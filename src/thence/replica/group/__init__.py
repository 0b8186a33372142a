"""A process of a group: its incarnations, what they tell each other, and how one follows another.

docs/protocols/membership.md has the rules. Six ideas, from the outside in:

* the *process*: `process` (what its program and its operator ask of it), `dispatch` (what other processes
  say, and which part that is for), `succession` (which incarnation runs, and what follows it: `stages`),
  `joining` (its way in), `parting` (its way out, and members that the group goes on without), `speaking` (who
  may say what), `vicinity` (which links it wants), `settings`, `surroundings` (what it needs from others);
* the *incarnation*: `member` (what it sends, and when), `receiving`, `delivery`, `membership` (changes of the
  view), `stability`, over its `ledger`, with `tag_book` and `rows` of the trace;
* the *channel*: `links`, and under them `channel` (`stages`), `backlog`; `relays` (whom to ask for which
  origin);
* *receipts*: `receipts` (when), `peers` (what others have), `passing` (those of others), `lineage` (which of
  them count: rollbacks);
* the *state*: `state`, `state_codec`, `payloads`, `handover` (for joiners), `admission` (of which, and when);
* the *return*: `incarnations` (on the disk), `returning` (what a new one begins with), `carrying` (what it
  sends again), `reading` and `replay` (what a program without a state gets).
"""
