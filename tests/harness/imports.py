# SPDX-License-Identifier: Apache-2.0

"""What the modules of the product import, read from their sources."""

import ast
import dataclasses
import pathlib
from collections.abc import Iterator

from tests.harness import distributions

#: A directory of files that are copied, and not imported.
COPIED = "skeletons"


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported module, as one module names it."""

    importer: str
    target: str
    line: int
    at_import: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


class Tree:
    """The modules below a directory and what each of them imports."""

    def __init__(self, root: pathlib.Path) -> None:
        self.paths = {
            self._name(path.relative_to(root)): path
            for package in distributions.PACKAGES
            for path in sorted((root / package).rglob("*.py"))
            if COPIED not in path.parts
        }
        self.imports = {
            module: list(self._imports_of(module)) for module in self.paths
        }

    @staticmethod
    def _name(path: pathlib.Path) -> str:
        parts = path.with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        return ".".join(parts)

    def _imports_of(self, module: str) -> Iterator[Import]:
        tree = ast.parse(self.paths[module].read_text())
        at_import = set(_statements_run_at_import(tree))
        for node in ast.walk(tree):
            for target in self._targets(module, node):
                yield Import(module, target, node.lineno, node in at_import)

    def _targets(self, module: str, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = self._base(module, node)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                # from PACKAGE import MODULE, or an object of PACKAGE
                yield name if self._is_module(name) else base

    def _is_module(self, name: str) -> bool:
        # What is missing counts, too, as long as it can only be a module.
        return name in self.paths or name.count(".") == 1

    def _base(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = self.paths[module].name == "__init__.py"
        keep = len(module.split(".")) - node.level + is_package
        parts = module.split(".")[:keep]
        return ".".join([*parts, node.module] if node.module else parts)

    def loaded_with(self, module: str) -> set[Import]:
        """Return every import that runs when a module is imported."""
        done: set[str] = set()
        pending = [module]
        found: set[Import] = set()
        while pending:
            name = pending.pop()
            if name in done:
                continue
            done.add(name)
            # Importing a.b.c runs a and a.b first.
            pending.extend(parents(name))
            for item in self.imports.get(name, []):
                if item.at_import:
                    found.add(item)
                    pending.append(item.target)
        return found


def _statements_run_at_import(tree: ast.Module) -> Iterator[ast.AST]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def circles(root: pathlib.Path) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle.

    Imports inside functions count: they hide a circle, and do not mend it.
    Those for types only count as well: to understand one module of the
    circle a reader needs them all.
    """
    imports = {
        module: {item.target for item in items} - {module}
        for module, items in Tree(root).imports.items()
    }
    reached: dict[str, set[str]] = {}
    for module in imports:
        reached[module] = set()
        pending = [module]
        while pending:
            new = imports.get(pending.pop(), set()) - reached[module]
            reached[module] |= new
            pending.extend(new)
    found = {
        frozenset(one for one in others if module in reached.get(one, ()))
        for module, others in reached.items()
        if module in others
    }
    return sorted(map(sorted, found))
