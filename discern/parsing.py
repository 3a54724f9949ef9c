"""From the words of a command line to a command: tyro parses, and what is wrong with them is one sentence."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Union, get_origin, get_type_hints

import tyro

from discern.checks import SettingError, first_problem, nearest
from discern.config import FIELDS, Config, differences, flag
from discern.presets import GYMNASIUM, preset, suite_of
from discern.types import UserError

HELP = ("-h", "--help")
COMPLETION = {"--tyro-print-completion": 2, "--tyro-write-completion": 3}  # words that each takes
SHELLS = ("bash", "zsh", "fish", "tcsh")
SUITES = ("atari", "control", "gym")  # whose worlds have settings of their own
KINDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path", "STR": "a text"}


@dataclass(frozen=True)
class Settings(Config):
    """A config as it is typed: whether it makes sense is asked when it is whole."""

    def __post_init__(self):
        pass


def parse(commands: Mapping[str, Any], words: Sequence[str], about: str) -> Any:
    """The command that the words name, one of dataclasses by name; where it has a field `settings`, which is a config,
    what is not typed is the preset's of its world."""
    words = list(words) or ["--help"]
    if words[0] in COMPLETION and (len(words) < COMPLETION[words[0]] or words[1] not in SHELLS):
        file = " and a file" * (COMPLETION[words[0]] - 2)
        raise UserError(f"{words[0]} needs the name of a shell, {_listed(SHELLS)}{file}")
    kind = commands.get(words[0])
    if kind is None or "settings" not in {entry.name for entry in dataclasses.fields(kind)}:
        wanted, base = _parse(commands, words, about), None
    else:
        wanted, base = _configured(commands, words, about)
    try:
        if base is not None:
            wanted = dataclasses.replace(wanted, settings=Config(**vars(wanted.settings)))
            _refuse_other_suites(wanted.settings, base)
        problem = first_problem(wanted, but="settings")
        if problem:
            raise SettingError(problem)
    except SettingError as error:
        raise UserError(error.spelt(flag)) from None
    return wanted


def _configured(commands: Mapping[str, Any], words: Sequence[str], about: str) -> tuple[Any, Config]:
    """A command on top of the preset of the world and configuration that are named anywhere among its words."""
    kind, usual = commands[words[0]], preset("arena")
    default, asks = kind(settings=_unchecked(usual)), bool(set(HELP) & set(words))
    try:
        named = _parse(commands, [word for word in words if word not in HELP], about, default)
    except UserError:
        if not asks:
            raise
        named = default
    base = preset(named.settings.env, named.config)
    if asks or base != usual:
        named = _parse(commands, words, about, kind(settings=_unchecked(base), config=named.config))
    return named, base


def _unchecked(config: Config) -> Settings:
    return Settings(**vars(config))


def _refuse_other_suites(settings: Config, default: Config) -> None:
    for changed in differences(settings, default):
        path = changed.partition(":")[0]
        suite = path.partition(".")[0]
        ours = suite_of(settings.env)
        if suite in SUITES and suite != ("gym" if ours in GYMNASIUM else ours):
            raise UserError(f"{flag(path)} is for worlds {suite}/…: {settings.env} has no such setting, leave it out")


def _parse(commands: Mapping[str, Any], words: Sequence[str], about: str, default: Any = None) -> Any:
    kinds = []
    for name, kind in commands.items():
        own = {"default": default} if default is not None and name == words[0] else {}
        kinds.append(Annotated[kind, tyro.conf.subcommand(name, **own)])
    command: Any = Union[tuple(kinds)]  # noqa: UP007, since there is no X | Y of a tuple
    with _one_sentence(commands, words):
        return tyro.cli(command, prog="discern", args=words, description=about)


@contextlib.contextmanager
def _one_sentence(commands: Mapping[str, Any], words: Sequence[str]) -> Iterator[None]:
    """tyro frames its errors in boxes; its hook for them is not public, and without it the boxes are shown."""

    def refuse(event: Any) -> None:
        with contextlib.suppress(AttributeError):  # of another version of tyro
            raise UserError(_sentence(event, commands, words))

    hook = getattr(getattr(tyro, "_errors", None), "on_parse_error", None)
    with hook(refuse) if hook else contextlib.nullcontext():
        yield


def _sentence(event: Any, commands: Mapping[str, Any], words: Sequence[str]) -> str:
    """What is wrong with the words, and what to do."""
    prog, kind = f"discern {words[0]}", type(event).__name__
    if words[0] not in commands:
        return f"there is no command '{words[0]}'" + (
            nearest(words[0], commands) or f"; there are: {_listed(commands)}"
        )
    bare = [word for word in _flags(commands[words[0]])[1] if word in words]
    if bare:
        return f"{prog} has no flag {bare[0]}: give its value without it"
    if kind == "UnrecognizedArgs":
        return _unknown(event.tokens[0].partition("=")[0], commands[words[0]], prog)
    if kind == "MissingArgs":
        missing = [argument.arg for argument in event.missing_arguments]
        names = [arg.lowered.metavar if arg.is_positional() else arg.lowered.name_or_flags[0] for arg in missing]
        return f"{prog} needs {' and '.join(names)}: `{prog} --help` tells more"
    argument = getattr(event, "argument", None)
    if argument is None:
        return f"{prog} cannot be understood: `{prog} --help` lists what it takes"
    name = argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[0]
    if kind == "InvalidChoice":
        return f"{name} takes {_listed(event.choices)}, not '{event.value}'"
    if kind == "InstantiationFailure":
        found = " ".join(re.findall(r"'([^']*)'", event.message.splitlines()[0]))
        return f"{name} takes {_kind(argument.lowered.metavar)}, not '{found}'"
    return f"{name} needs a value: {_kind(argument.lowered.metavar)}"


def _unknown(word: str, kind: Any, prog: str) -> str:
    """A word that the command does not know."""
    if not word.startswith("-"):
        return f"{prog} has no use for '{word}': `{prog} --help` lists what it takes"
    flags = _flags(kind)[0]
    if word in _flags(getattr(kind, "fresh", kind))[0]:
        return f"{word} is for a new run: one that goes on takes {_listed(flags)}"
    return f"{prog} has no flag {word}" + (nearest(word, flags) or f": `{prog} --help` lists them")


def _flags(kind: Any) -> tuple[list[str], list[str]]:
    """Every flag of a command, and what would be one if it did not stand alone."""
    flags, alone = [], []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name == "settings":
            flags += [flag(field) for field in FIELDS if field != "env"]
            alone.append("--env")
        elif name in kind.__dataclass_fields__ and get_origin(hint) is not ClassVar:
            (alone if tyro.conf.Positional in getattr(hint, "__metadata__", ()) else flags).append(flag(name))
    return flags, alone


def _kind(metavar: str) -> str:
    known = next((said for name, said in KINDS.items() if re.search(rf"\b{name}\b", metavar)), metavar)
    return f"a list, each {known}" if "..." in metavar else known


def _listed(names: Any) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else str(last)
