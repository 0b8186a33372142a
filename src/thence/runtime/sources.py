"""Where settings come from: flags, then environment, then a file, then the profile, then defaults.

Every setting has one key: a field of `NodeSettings` (`listen`), or part and field (`links.silence_us`). The
same key is a flag, a key or table of the TOML file, and, in capitals after `THENCE_`, a variable of the
environment (`THENCE_LINKS_SILENCE_US`). Whatever is unknown or of the wrong type is one line that names the
source, so that no node runs with a setting that was not understood.

Keys that answer one question (`members` or `join`; `secret` or `secret_file`) replace one another: the source
that takes precedence decides, whichever of them it uses.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_type_hints

from thence.core.errors import UsageError
from thence.runtime.kinds import NOTHING, PATH, SettingKind, kind_of
from thence.runtime.profiles import PROFILES
from thence.runtime.settings import NodeSettings
from thence.runtime.user_secret import user_secret

ALTERNATIVES: Final = (("members", "join"), ("secret", "secret_file"))
PREFIX: Final = "THENCE_"
CONFIG: Final = "THENCE_CONFIG"
FOREIGN: Final = re.compile(
    r"THENCE_(JAVA|SPARK_LOG|TEST_BOOT|(.*_)?(SERVICE_HOST|SERVICE_PORT.*|PORT|PORT_\d+_.*))"
)
"""Variables of other parts of thence, and those that Kubernetes sets for services with such a name."""

NAMED: Final = re.compile(r"`([a-z_.]+)`")
"""A key in an error, which the caller may know as something else."""

FLAGS: Final = {"log.sync": "--sync", "stability.enabled": "--stability"}
"""Settings of a part that have a flag of their own; the others have `--set`."""

_HINTS: Final = get_type_hints(NodeSettings)
PARTS: Final[Mapping[str, type]] = {
    key: hint for key, hint in _HINTS.items() if hasattr(hint, "__dataclass_fields__")
}
KINDS: Final[Mapping[str, SettingKind]] = {
    **{key: kind_of(hint) for key, hint in _HINTS.items() if key not in PARTS},
    "secret_file": PATH,
    **{
        f"{part}.{name}": kind_of(hint)
        for part, made_by in PARTS.items()
        for name, hint in get_type_hints(made_by).items()
    },
}
"""Every key, and what its value must be."""


@dataclass(frozen=True, slots=True)
class Source:
    called: Callable[[str], str]
    """What people know a key of this source as."""
    values: Mapping[str, object]
    texts: bool = True
    """Texts stand for other things and are parsed; in TOML things stand for themselves."""
    base: Path = Path()
    """Where paths start."""

    def parsed(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in self.values.items():
            if key not in KINDS:
                raise UsageError(f"{self.called(key)}: {_unknown(key)}")
            read = KINDS[key].of_text if self.texts and isinstance(value, str) else KINDS[key].of_value
            try:
                result[key] = read(value)  # type: ignore[arg-type]  # of_text only if it is text
            except UsageError as error:
                raise UsageError(f"{self.called(key)}: {error}") from None
            if isinstance(result[key], Path):
                result[key] = self.base / result[key].expanduser()
        return result


def compose(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config: Path | None = None,
    default_secret: Callable[[Mapping[str, str]], bytes] = user_secret,
    called: Callable[[str], str] | None = None,
) -> NodeSettings:
    """The settings of a node; `UsageError` names the source of what is wrong. A flag that is None was not
    given. `default_secret`: of a node on the loopback that is given none. `called`: what the caller knows a
    key as; as a flag, unless it is told."""
    called = called or flag_of
    try:
        return _composed(flags, environment, config, default_secret, called)
    except UsageError as error:
        told = NAMED.sub(lambda key: called(key[1]) if key[1] in KINDS else key[0], str(error))
        raise UsageError(told) from error.__cause__


def _composed(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    config: Path | None,
    default_secret: Callable[[Mapping[str, str]], bytes],
    called: Callable[[str], str],
) -> NodeSettings:
    """Its errors name keys in backquotes."""
    if config is None and environment.get(CONFIG):
        config = Path(environment[CONFIG])
    values = _chosen(
        [of_flags(flags, called), of_environment(environment), *([of_file(config)] if config else [])]
    )
    values = {**PROFILES[values.get("profile", "lan")], **values}
    for needed in ("name", "data"):
        if needed not in values:
            raise UsageError(
                f"a node needs `{needed}` (or {variable_of(needed)}, or {needed} in the configuration file)"
            )
    if "listen" not in values:
        own = dict(values.get("members", ())).get(values["name"])
        if own is None:
            raise UsageError("a node needs `listen` HOST:PORT, or its own name among `members`")
        values["listen"] = own
    if str(values.get("spread")).endswith("-centre") or values.get("spread") == "eco-sync-tree":
        values.setdefault("order", "none")  # the only one that it can have
    if values.get("spread") == "gossip":
        values.setdefault("order", "probabilistic")  # the same
    if "topology" in values:
        values.setdefault("order", "separator")  # the same
    if values.get("order") == "probabilistic":
        values.setdefault("spread", "gossip")
    elif given := [key for key in ("clock.entries", "clock.keys") if flags.get(key) is not None]:
        raise UsageError(f"{given[0]} is for order probabilistic, not {values.get('order', 'graph')}")
    if "secret_file" in values:
        values["secret"] = _read_secret(values.pop("secret_file"))
    settings = _built(values)  # beyond the loopback it has refused to be without a secret
    return settings if "secret" in values else replace(settings, secret=default_secret(environment))


def of_flags(flags: Mapping[str, object], called: Callable[[str], str]) -> Source:
    given = {key: value for key, value in flags.items() if value is not None}
    if called is flag_of and given.get("secret", NOTHING) != NOTHING:
        raise UsageError(
            "a secret on the command line is seen by all users who list processes: "
            "use --secret-file, THENCE_SECRET or the configuration file"
        )
    return Source(called, given)


def of_environment(environment: Mapping[str, str]) -> Source:
    """Variables with our prefix. One that means nothing is refused: it was meant to mean something."""
    keys = {variable_of(key): key for key in KINDS}
    found = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable == CONFIG or FOREIGN.fullmatch(variable):
            continue
        if variable not in keys:
            raise UsageError(f"environment, {variable}: there is no such setting")
        found[keys[variable]] = environment[variable]
    return Source(lambda key: f"environment, {variable_of(key)}", found)


def of_file(path: Path) -> Source:
    """A TOML file: keys as the fields, a table per part. Paths in it start at its folder."""
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # TOML or UTF-8 that is none
        raise UsageError(f"{path} is no TOML: {error}") from error
    return Source(lambda key: f"{path}, {key}", dict(_flat(path, read)), texts=False, base=path.parent)


def of_words(words: list[str]) -> dict[str, str]:
    """`KEY=VALUE …`, as `--set` takes them."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in KINDS:
            raise UsageError(f"--set {word}: {_unknown(key) if equals else 'must be KEY=VALUE'}")
        if key in found:
            raise UsageError(f"--set {key}: given twice")
        found[key] = value
    return found


def variable_of(key: str) -> str:
    return PREFIX + key.replace(".", "_").upper()


def _chosen(sources: list[Source]) -> dict[str, Any]:
    """The values of all sources, the first one first in precedence."""
    values: dict[str, Any] = {}
    for source in reversed(sources):
        parsed = source.parsed()
        for pair in ALTERNATIVES:
            used = [key for key in pair if key in parsed]
            if len(used) == 2:
                raise UsageError(f"{source.called(pair[0])}: give this or {pair[1]}, not both")
            if used:
                values = {key: value for key, value in values.items() if key not in pair}
        values.update(parsed)
    return values


def _built(values: Mapping[str, Any]) -> NodeSettings:
    whole: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
    for part, made_by in PARTS.items():
        start = f"{part}."
        numbers = {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}
        whole[part] = made_by(**numbers)
    return NodeSettings(**whole)


def _read_secret(path: Path) -> bytes:
    """The file without the newline that editors leave at its end."""
    try:
        secret = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"cannot read the secret in {path}: {error.strerror}") from error
    if not secret:
        raise UsageError(f"the secret file {path} is empty")
    return secret


def _flat(path: Path, read: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in read.items():
        if key not in PARTS:
            yield key, value
        elif isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            raise UsageError(f"{path}, {key}: must be a table, [{key}]")


def flag_of(key: str) -> str:
    return FLAGS.get(key) or (f"--set {key}" if "." in key else f"--{key.replace('_', '-')}")


def _unknown(key: str) -> str:
    close = get_close_matches(key, KINDS, n=1)
    return "there is no such setting" + (f"; there is {close[0]}" if close else "")
