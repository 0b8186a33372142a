"""Operations on keys, as they travel: one list per part, all parts of a command or transaction together.

A part is `[code, database, key, fresh, bound, …]`. `fresh`: the key did not exist at the origin, so the part
first removes what was seen of it. `bound`: the deadline that an update was made under, in milliseconds; 0 if
there was none, and in parts that are no update.
"""

from typing import Any, Final

SET: Final = 1  # value, deadline
UPDATE: Final = 2  # of a string: an update of `crdt.steps`
DELETE: Final = 3  # whether removes of its elements stay (where removes win)
STATE: Final = 4  # deadline
SET_ADD: Final = 5  # elements
SET_REMOVE: Final = 6  # elements
FIELD_SET: Final = 7  # fields and values, in turn
FIELD_UPDATE: Final = 8  # field, update
FIELD_REMOVE: Final = 9  # fields
SCORE_SET: Final = 10  # members and scores, in turn
SCORE_UPDATE: Final = 11  # member, update
SCORE_REMOVE: Final = 12  # members
FLUSH: Final = 13  # no key; database `ALL`: every one
REAP: Final = 14  # no key: the deadline up to which keys are gone
RETURNED: Final = 15  # no key but an incarnation: this is made of its operation with this counter

STATE_MAGIC: Final = b"thenceST"
"""With which the state of a store begins, that of an empty one as well."""

ALL: Final = 255
DATABASES: Final = 16

Part = list[Any]

REMOVES: Final = frozenset({DELETE, SET_REMOVE, FIELD_REMOVE, SCORE_REMOVE, FLUSH, REAP, STATE})
"""What a carried operation must not do: they would remove what their origin never saw."""
