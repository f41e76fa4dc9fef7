"""How much work code does, counted: the same number on every run and every machine, costs inside C calls among it.

Modules are rewritten as they are imported (`install`). Each call of a function and each turn of a loop counts one. What is
one instruction of Python and a loop in C counts by its length: `x in a_list`, `a_list.count(x)`, `sorted`, a slice, a
comparison of lists, text that is put together. So a list that is searched once per element shows as what it is.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import operator
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

__all__ = ["count_in", "install", "places", "rewritten", "watch_places", "work"]

_done = [0]
_places: Counter[str] = Counter()
_is_watched = False
BYTES_PER_UNIT = 64
"""C copies and searches text that much quicker than it turns a loop."""
COPIES_PER_UNIT = 4
"""And it copies references so much quicker."""
SEQUENCES = (list, tuple, deque)
SETS = (set, frozenset, dict)
TEXTS = (str, bytes, bytearray)
SEARCHES = ("count", "index", "remove", "insert", "copy", "reverse", "sort", "replace", "split", "encode", "decode")
TAKES = ("extend", "update", "union", "difference", "intersection", "difference_update", "join", "extendleft")
RESULTS = (list, tuple, set, frozenset, dict, sorted, bytes, bytearray)
CONSUMERS = (sum, min, max, any, all)
CALLED = frozenset(each.__name__ for each in (*RESULTS, *CONSUMERS, compile))


def work() -> int:
    """Return how much was done so far."""
    return _done[0]


def count_in(counter: list[int]) -> None:
    """Count in another list's first place, such as one that tells threads apart; before `install`."""
    global _done
    _done = NAMES["_work_done"] = counter


def watch_places() -> None:
    """Count by line as well from here on: slower, to see where the work is."""
    global _is_watched
    _is_watched = True


def places(most: int = 12) -> list[tuple[str, int]]:
    """Return the lines with most of the work since the last call."""
    global _places
    found, _places = _places, Counter()  # threads may go on with counting
    return found.most_common(most)


def _add(cost: int) -> None:
    _done[0] += cost
    if _is_watched:
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__ and frame.f_back is not None:
            frame = frame.f_back
        _places[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += cost


def _size(value: Any) -> int:
    kind = type(value)
    if kind in TEXTS:
        return len(value) // BYTES_PER_UNIT
    return len(value) if kind in SEQUENCES or kind in SETS else 0


# ---------------------------------------------------------------- what rewritten code calls


def _tick() -> None:
    _add(1)


def _in(each: Any, among: Any) -> bool:
    kind = type(among)
    if kind in SEQUENCES:
        for at, other in enumerate(among):
            if other is each or other == each:
                _add(at)
                return True
    found: bool = each in among
    if kind in SEQUENCES or kind in TEXTS:
        _add(_size(among))
    elif kind is type({}.values()):
        _add(len(among))
    return found


def _equal(one: Any, other: Any) -> Any:
    found = one == other
    if type(one) is type(other) and found is True:
        _add(_size(one))
    return found


def _unequal(one: Any, other: Any) -> Any:
    found = one != other
    if type(one) is type(other) and found is False:
        _add(_size(one))
    return found


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        _add(1)
        yield each


def _each(values: Any) -> Any:
    if type(values) in SEQUENCES or type(values) in SETS:
        _add(len(values))
        return values
    return _counted(values)


def _method(owner: Any, name: str) -> Any:
    """Return a method; what it costs is added where its owner is one of Python's own containers."""
    found = getattr(owner, name)
    kind = type(owner)
    if kind not in SEQUENCES and kind not in SETS and kind not in TEXTS:
        return found
    if name in TAKES:

        def take(*values: Any) -> Any:
            held = [each if hasattr(each, "__len__") else list(each) for each in values]
            _add(sum(_size(each) or (len(each) if not isinstance(each, TEXTS) else 0) for each in held))
            if name in ("union", "difference", "intersection"):
                _add(len(owner))
            made = found(*held)
            _add(_size(made))
            return made

        return take
    if name == "pop":

        def pop(*at: Any) -> Any:
            if kind is list and at:
                _add(len(owner) - at[0] if at[0] >= 0 else 0)
            return found(*at)

        return pop
    _add(_size(owner))
    return found


def _called(function: Any) -> Any:
    """Return a function; what it costs is added where it is one of Python's that walk what they are given."""
    if function in RESULTS:

        def make(*args: Any, **named: Any) -> Any:
            made = function(*args, **named)
            _add(_size(made))
            return made

        return make
    if function in CONSUMERS:

        def consume(*args: Any, **named: Any) -> Any:
            if len(args) == 1 and type(args[0]) not in SEQUENCES and type(args[0]) not in SETS:
                args = (_counted(args[0]),)
            elif args:
                _add(_size(args[0]))
            return function(*args, **named)

        return consume
    return _compiled if function is compile else function


def _made(value: Any) -> Any:
    _add(_size(value) // COPIES_PER_UNIT)
    return value


def _both(one: Any, other: Any, act: Callable[[Any, Any], Any]) -> Any:
    made = act(one, other)
    if type(one) in SEQUENCES or type(one) in TEXTS:
        _add(_size(made) // COPIES_PER_UNIT)
    elif type(one) in SETS:
        _add((_size(one) + _size(other)) // COPIES_PER_UNIT)
    return made


def _taken(value: Any) -> Any:
    """Return what is added in place to a list; the list itself is not copied."""
    _add(_size(value))
    return value


def _compiled(source: Any, name: str, mode: str, *args: Any, **named: Any) -> CodeType:
    found: CodeType = compile(rewritten(source, name) if isinstance(source, str) else source, name, mode)
    return found


OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.BitOr: "or_",
    ast.BitAnd: "and_",
    ast.Sub: "sub",
    ast.Mult: "mul",
}
NAMES: dict[str, Any] = {
    "_work_tick": _tick,
    "_work_done": _done,
    "_work_in": _in,
    "_work_equal": _equal,
    "_work_unequal": _unequal,
    "_work_counted": _counted,
    "_work_each": _each,
    "_work_method": _method,
    "_work_called": _called,
    "_work_made": _made,
    "_work_both": _both,
    "_work_taken": _taken,
    **{f"_work_{each}": getattr(operator, each) for each in OPERATORS.values()},
}


# ---------------------------------------------------------------- rewriting


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


class _Rewriter(ast.NodeTransformer):
    """Puts the counting in; what the code does stays as it is."""

    def _tick(self) -> ast.stmt:
        if _is_watched:
            return ast.Expr(_call("_work_tick"))
        place = ast.Subscript(ast.Name("_work_done", ast.Load()), ast.Constant(0), ast.Store())
        return ast.AugAssign(place, ast.Add(), ast.Constant(1))

    def _with_tick(self, body: list[ast.stmt]) -> list[ast.stmt]:
        first = body[0]
        has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        at = 1 if has_text and isinstance(first.value.value, str) else 0  # type: ignore[attr-defined]
        tick = ast.copy_location(self._tick(), first)
        return [*body[:at], tick, *body[at:]]

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        node.defaults = [self.visit(each) for each in node.defaults]
        node.kw_defaults = [None if each is None else self.visit(each) for each in node.kw_defaults]
        return node  # annotations stay as they are

    def _function(self, node: Any) -> Any:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        node.body = self._with_tick(node.body)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _loop(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = self._with_tick(node.body)
        return node

    visit_For = visit_While = visit_AsyncFor = _loop

    def _comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        name = "_work_counted" if isinstance(node, ast.GeneratorExp) else "_work_each"
        for each in node.generators:
            if not each.is_async:
                each.iter = _call(name, each.iter)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        one, op, other = node.left, node.ops[0], node.comparators[0]
        if isinstance(op, ast.In):
            return _call("_work_in", one, other)
        if isinstance(op, ast.NotIn):
            return ast.UnaryOp(ast.Not(), _call("_work_in", one, other))
        if any(isinstance(each, ast.Constant) for each in (one, other)):
            return node
        if isinstance(op, ast.Eq):
            return _call("_work_equal", one, other)
        if isinstance(op, ast.NotEq):
            return _call("_work_unequal", one, other)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in (*SEARCHES, *TAKES, "pop"):
            if not (isinstance(function.value, ast.Call) and getattr(function.value.func, "id", "") == "super"):
                node.func = _call("_work_method", function.value, ast.Constant(function.attr))
        elif isinstance(function, ast.Name) and function.id in CALLED:
            node.func = _call("_work_called", function)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        name = OPERATORS.get(type(node.op))
        if name is None or any(isinstance(each, ast.Constant) for each in (node.left, node.right)):
            return node
        return _call("_work_both", node.left, node.right, ast.Name(f"_work_{name}", ast.Load()))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Add | ast.BitOr) or isinstance(node.value, ast.Constant):
            return node
        if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            grown = ast.Name(node.target.id, ast.Load())  # text and tuples are copied, a list grows
            node.value = _call("_work_grown", grown, node.value)
        else:
            node.value = _call("_work_taken", node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice):
            return _call("_work_made", node)
        return node

    def _display(self, node: Any) -> Any:
        self.generic_visit(node)
        is_read = isinstance(node, ast.Set | ast.Dict) or isinstance(node.ctx, ast.Load)
        parts = node.keys if isinstance(node, ast.Dict) else node.elts
        if is_read and any(each is None or isinstance(each, ast.Starred) for each in parts):
            return _call("_work_made", node)
        return node

    visit_List = visit_Tuple = visit_Set = visit_Dict = _display

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                each.value = self.visit(each.value)
        return _call("_work_made", node)

    def visit_Match(self, node: ast.Match) -> ast.Match:
        node.subject = self.visit(node.subject)
        for case in node.cases:  # patterns stay as they are
            case.guard = None if case.guard is None else self.visit(case.guard)
            found: list[ast.stmt] = []
            for statement in case.body:
                made = self.visit(statement)
                found += made if isinstance(made, list) else [made]
            case.body = found
        return node


def _grown(held: Any, value: Any) -> Any:
    _add(_size(value) + (_size(held) if type(held) in (str, bytes, tuple) else 0))
    return value


NAMES["_work_grown"] = _grown


def rewritten(source: str | bytes, name: str) -> ast.Module:
    """Return the source's tree with counting in it."""
    tree: ast.Module = _Rewriter().visit(ast.parse(source, name))
    return ast.fix_missing_locations(tree)


class _Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        found: CodeType = compile(rewritten(data, str(path)), path, "exec", dont_inherit=True, optimize=_optimize)
        return found

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules' sources, past what is compiled of them."""

    def __init__(self, packages: Sequence[str], but: Sequence[str]) -> None:
        self._packages, self._but = tuple(packages), tuple(but)

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if not fullname.startswith(self._packages) or fullname.startswith(self._but):
            return None
        finder = importlib.machinery.FileFinder
        for folder in path if path is not None else sys.path:
            spec = finder(folder, (_Loader, [".py"])).find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def install(packages: Sequence[str] = ("ottla.",), but: Sequence[str] = ("ottla.wire.messages.", "ottla.cli")) -> None:
    """Count the work of modules that are imported from here on; `but` are left as they are."""
    early = [each for each in sys.modules if each.startswith(tuple(packages)) and not each.startswith(tuple(but))]
    assert not early, f"imported before their work could be counted: {early}"
    for name, value in NAMES.items():
        setattr(builtins, name, value)
    sys.meta_path.insert(0, _Finder(packages, but))
