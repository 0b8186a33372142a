"""Sets: where an add and a remove of one element are concurrent, adds win, or removes do.

Elements in `data`; those of which something is not stable in `loose`.
"""

from collections.abc import Iterable

from thence.crdt.mark import Mark


class AddWinsSet:
    """An element is in if there is a live add of it that no remove follows. `data[e]` is None if its add is
    stable, else the live adds. A remove leaves nothing behind: what it saw was delivered before it.

    Of several live adds, one that is stable may go: whatever removes the others follows from it.
    """

    __slots__ = ("data", "loose")

    def __init__(self) -> None:
        self.data: dict[bytes, list[Mark] | None] = {}
        self.loose: dict[bytes, None] = {}

    def __contains__(self, element: bytes) -> bool:
        return element in self.data

    def __len__(self) -> int:
        return len(self.data)

    def elements(self) -> Iterable[bytes]:
        return self.data

    @property
    def empty(self) -> bool:
        """Nothing at all is kept."""
        return not self.data

    def add(self, mark: Mark, element: bytes) -> None:
        adds = self.data.get(element)
        if adds:
            self.data[element] = [one for one in adds if not one.precedes(mark)] + [mark]
        else:
            self.data[element] = [mark]
            self.loose[element] = None

    def remove(self, mark: Mark, element: bytes) -> None:
        if element not in self.data:
            return
        adds = self.data[element]
        left = [one for one in adds if not one.precedes(mark)] if adds else []
        if left:
            self.data[element] = left
        else:
            del self.data[element]
            self.loose.pop(element, None)

    def displace(self, mark: Mark, element: bytes) -> None:
        """What an add that has no effect replaces."""
        self.remove(mark, element)

    def reset(self, mark: Mark, keeps_removes: bool = False) -> None:  # noqa: ARG002
        if not self.loose:
            self.data.clear()
            return
        left: dict[bytes, list[Mark] | None] = {}
        for element in self.loose:
            adds = self.data[element]
            if adds and (live := [one for one in adds if not one.precedes(mark)]):
                left[element] = live
        self.data = left
        self.loose = dict.fromkeys(left)

    def forget(self, mark: Mark, element: bytes) -> None:
        """This add has no effect any more; what it replaced stays replaced."""
        adds = self.data.get(element)
        if adds and mark in adds:
            if len(adds) == 1:
                del self.data[element], self.loose[element]
            else:
                self.data[element] = [one for one in adds if one is not mark]

    def strip(self, elements: Iterable[bytes]) -> None:
        """Something in these is stable."""
        data, loose = self.data, self.loose
        for element in elements:
            if element not in loose:
                continue
            adds = data[element]
            one_stable = adds and len(adds) == 1 and adds[0].stable  # as most are
            if not one_stable and (left := [one for one in adds or () if not one.stable]):
                data[element] = left
            else:
                data[element] = None
                del loose[element]


class RemoveWinsSet:
    """An element is in if there is a live add of it that follows every live remove of it. Removes are kept
    until they are stable, and for as long as they hide an add that is not: a reset may be concurrent with
    that add and cover the remove.
    """

    __slots__ = ("data", "inside", "loose")

    def __init__(self) -> None:
        self.data: dict[bytes, tuple[list[Mark], list[tuple[Mark, tuple[Mark, ...]]]] | None] = {}
        """None: in, and stable. Else removes, and adds with those removes that they do not follow."""
        self.inside: dict[bytes, None] = {}
        self.loose: dict[bytes, None] = {}

    def __contains__(self, element: bytes) -> bool:
        return element in self.inside

    def __len__(self) -> int:
        return len(self.inside)

    def elements(self) -> Iterable[bytes]:
        return self.inside

    @property
    def empty(self) -> bool:
        return not self.data

    def _parts(self, element: bytes) -> tuple[list[Mark], list[tuple[Mark, tuple[Mark, ...]]]]:
        found = self.data.get(element, ([], []))
        return ([], [(_STABLE, ())]) if found is None else found

    def keep(self, element: bytes, removes: list[Mark], adds: list[tuple[Mark, tuple[Mark, ...]]]) -> None:
        if not removes and not adds:
            self.data.pop(element, None)
            self.loose.pop(element, None)
            self.inside.pop(element, None)
            return
        if not removes and any(mark.stable for mark, _ in adds):
            adds = [one for one in adds if not one[0].stable] or adds[:1]
        if not removes and adds[0][0].stable:
            self.data[element] = None
            self.loose.pop(element, None)
        else:
            self.data[element] = (removes, adds)
            self.loose[element] = None
        if any(not hidden for _, hidden in adds):
            self.inside[element] = None
        else:
            self.inside.pop(element, None)

    def add(self, mark: Mark, element: bytes) -> None:
        removes, adds = self._parts(element)
        hidden = tuple([one for one in removes if not one.precedes(mark)])
        self.keep(element, removes, [one for one in adds if not one[0].precedes(mark)] + [(mark, hidden)])

    def remove(self, mark: Mark, element: bytes) -> None:
        """Also of an element that is not in: an add that is still to come may be concurrent."""
        removes, adds = self._parts(element)
        # Whatever an earlier remove hides, this one hides too, and what covers this one covers that as well.
        left = [one for one in removes if not one.precedes(mark)]
        kept = [
            (one, (*[each for each in hidden if each in left], mark))
            for one, hidden in adds
            if not one.precedes(mark)
        ]
        self.keep(element, [*left, mark], kept)

    def reset(self, mark: Mark, keeps_removes: bool = False) -> None:
        """What this operation saw is gone; removes are no content, which expiry leaves alone."""
        for element in list(self.data):
            removes, adds = self._parts(element)
            left = removes if keeps_removes else [one for one in removes if not one.precedes(mark)]
            kept = [
                (one, tuple([each for each in hidden if each in left]))
                for one, hidden in adds
                if not one.precedes(mark)
            ]
            self.keep(element, left, kept)

    def forget(self, mark: Mark, element: bytes) -> None:
        removes, adds = self._parts(element)
        self.keep(element, removes, [one for one in adds if one[0] is not mark])

    def displace(self, mark: Mark, element: bytes) -> None:
        """What an add that has no effect replaces."""
        removes, adds = self._parts(element)
        self.keep(element, removes, [one for one in adds if not one[0].precedes(mark)])

    def strip(self, elements: Iterable[bytes]) -> None:
        for element in elements:
            if element not in self.loose:
                continue
            removes, adds = self._parts(element)
            adds = [one for one in adds if not (one[0].stable and any(each.stable for each in one[1]))]
            removes = [one for one in removes if not one.stable or any(one in hidden for _, hidden in adds)]
            self.keep(element, removes, adds)


_STABLE = Mark(0, "", None)
_STABLE.stable = True

Elements = AddWinsSet | RemoveWinsSet
