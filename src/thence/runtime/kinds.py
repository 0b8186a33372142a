"""What the value of a setting can be, and how it is read: from text, or from a value that has a type.

A kind is found by the type of the field that it fills, so that a new field needs no line here. Both ways of
reading raise `UsageError` with words that follow the name of the setting.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from thence.core.errors import UsageError
from thence.runtime.address import Address, parse_address

YES: Final = ("1", "true", "yes", "on")
NO: Final = ("0", "false", "no", "off")
NOTHING: Final = "none"
"""How text says that something is not wanted."""


@dataclass(frozen=True, slots=True)
class SettingKind:
    of_text: Callable[[str], Any]
    of_value: Callable[[object], Any]


def kind_of(hint: object) -> SettingKind:
    if get_origin(hint) is Literal:
        return _choice(get_args(hint))
    return KINDS[hint]


def _text(value: object) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    raise UsageError("must be text, and not empty")


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise UsageError(f"must be a whole number, not {value!r}")


def _integer_of_text(text: str) -> int:
    plain = text.replace("_", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 18):
        raise UsageError(f"must be a whole number, not {text!r}")
    return int(plain)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise UsageError(f"must be true or false, not {value!r}")


def _boolean_of_text(text: str) -> bool:
    if text.lower() in YES + NO:
        return text.lower() in YES
    raise UsageError(f"must be true or false, not {text!r}")


def _address(value: object) -> Address:
    return value if isinstance(value, Address) else parse_address(_text(value))


def _path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _secret(value: object) -> bytes:
    text = _text(value)
    return b"" if text == NOTHING else text.encode()


def _join(value: object) -> tuple[Address, ...]:
    if isinstance(value, list | tuple) and value:
        return tuple(_address(each) for each in value)
    raise UsageError("must be a list of addresses, HOST:PORT")


def _join_of_text(text: str) -> tuple[Address, ...]:
    return _join(text.split(","))


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(dict.fromkeys([_text(each) for each in value]))
    raise UsageError("must be a list of names")


def _names_of_text(text: str) -> tuple[str, ...]:
    return _names([word.strip() for word in text.split(",")])


def _members(value: object) -> tuple[tuple[str, Address], ...]:
    if isinstance(value, Mapping) and value:
        return tuple(sorted((_text(name), _address(where)) for name, where in value.items()))
    raise UsageError("must be a table of names and addresses")


def _members_of_text(text: str) -> tuple[tuple[str, Address], ...]:
    found: dict[str, str] = {}
    for word in text.split(","):
        name, equals, where = word.strip().partition("=")
        if not equals:
            raise UsageError(f"must be NAME=HOST:PORT,NAME=HOST:PORT…, not {word!r}")
        if name in found:
            raise UsageError(f"names {name} twice")
        found[name] = where
    return _members(found)


def _choice(known: tuple[str, ...]) -> SettingKind:
    def read(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise UsageError(f"must be {' or '.join(known)}, not {value!r}")

    return SettingKind(read, read)


def _or_nothing(kind: SettingKind) -> SettingKind:
    """Text can say `none`, and so can TOML, which has no such value."""
    return SettingKind(
        lambda text: None if text == NOTHING else kind.of_text(text),
        lambda value: None if value in (None, NOTHING) else kind.of_value(value),
    )


ADDRESS: Final = SettingKind(_address, _address)
INTEGER: Final = SettingKind(_integer_of_text, _integer)
PATH: Final = SettingKind(_path, _path)
KINDS: Final[Mapping[object, SettingKind]] = {
    str: SettingKind(_text, _text),
    bytes: SettingKind(_secret, _secret),
    bool: SettingKind(_boolean_of_text, _boolean),
    int: INTEGER,
    int | None: _or_nothing(INTEGER),
    Address: ADDRESS,
    Address | None: _or_nothing(ADDRESS),
    Path: PATH,
    Path | None: _or_nothing(PATH),
    tuple[str, ...]: SettingKind(_names_of_text, _names),
    tuple[Address, ...]: SettingKind(_join_of_text, _join),
    tuple[tuple[str, Address], ...]: SettingKind(_members_of_text, _members),
}
"""By the type of the field."""
