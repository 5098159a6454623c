"""Mutants of a module: the same source with one small fault each, as JSON lines.

Usage: python mutants.py [FILE ...], at the root; of `MODULES` when none is named.

Runs where cosmic-ray is installed, whose operators make most of the faults, and imports nothing of
the project. Of the faults that ask the same question one is made, and none where no test could
see one: see `OPERATORS` and `_unseen`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import cosmic_ray.plugins
import parso.python.tree
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

Position = tuple[int, int]
Span = tuple[Position, Position]

# What publishes, and what takes away.
MODULES = tuple(
    f"storage/operations/{name}.py"
    for name in (
        *("commit/commit", "commit/commit_loop", "commit/commit_conflicts"),
        *("commit/commit_manifests", "commit/restamp", "references/commit_standing"),
        *("state/latest", "state/lineage", "state/store_clock", "running/delete_files"),
        *("retention/expire_snapshots", "retention/expiry_range", "retention/expiring_files"),
        *("retention/expire_backlog", "retention/expire_tags", "retention/expire_changelogs"),
        *("retention/remove_orphans", "references/condemn", "references/collect"),
        *("references/keepers", "references/put_back", "references/reachable"),
        *("references/roots", "references/stale_roots", "references/whole_snapshots"),
        *("references/rollback", "references/sweep"),
        *("references/planned_files",),
    )
)

# One or two others for each operator: all eleven would ask one question eleven times.
OPERATORS = (
    *(f"ReplaceComparisonOperator_{each}" for each in ("Eq_NotEq", "NotEq_Eq")),
    *(f"ReplaceComparisonOperator_{each}" for each in ("Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{each}" for each in ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt")),
    *(f"ReplaceComparisonOperator_{each}" for each in ("Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")),
    *(f"ReplaceBinaryOperator_{each}" for each in ("Add_Sub", "Sub_Add", "Mul_Add", "Div_Mul")),
    *(f"ReplaceBinaryOperator_{each}" for each in ("FloorDiv_Mul", "Mod_Mul", "Pow_Mul")),
    *(f"ReplaceBinaryOperator_{each}" for each in ("BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr")),
    *(f"ReplaceUnaryOperator_Delete_{each}" for each in ("Not", "USub")),
    "AddNot",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "ZeroIterationForLoop",
)


class LeaveOutStatement:
    """Does not do what is done for its effect alone: a call, a raise."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Span]:
        if node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "raise_stmt"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        before = node.get_first_leaf().prefix
        node.children[0] = parso.python.tree.Keyword("pass", node.start_pos, before)
        return node


class NegateMembership:
    """Takes `in` for `not in`, and the other way round."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Span]:
        if node.type == "comparison" and node.children[1].get_code().strip() in ("in", "not in"):
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        other = "not in" if node.children[1].get_code().strip() == "in" else "in"
        node.children[1] = parso.python.tree.Keyword(other, node.children[1].start_pos, " ")
        return node


class NegateCondition:
    """Takes the other half, in a comprehension that has a condition."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Span]:
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        node.children[1] = parso.parse(f" (not ({node.children[1].get_code().strip()}))")
        return node


def mutants(path: Path) -> Iterator[dict[str, object]]:
    """Every mutant of a file that some test could see."""
    source = path.read_text(encoding="utf-8")
    unseen = list(_unseen(ast.parse(source)))
    made = {name: cosmic_ray.plugins.get_operator(f"core/{name}")() for name in OPERATORS}
    made |= {kind.__name__: kind() for kind in (LeaveOutStatement, NegateMembership)}
    made |= {"NegateCondition": NegateCondition()}
    for name, operator in made.items():
        positions = [
            position
            for node in ast_nodes(get_ast(source))
            for position in operator.mutation_positions(node)
        ]
        for occurrence, (start, _) in enumerate(positions):
            if any(first <= start < last for first, last in unseen):
                continue
            mutated = mutate_code(source, operator, occurrence)
            if _is_python(mutated):
                yield {"file": str(path), "line": start[0], "fault": name, "source": mutated}


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _unseen(tree: ast.Module) -> Iterator[Span]:
    """Where a fault changes nothing that runs, or only the words of an error."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation):
                yield _span(annotation)
            case ast.AnnAssign(annotation=annotation):
                yield _span(annotation)
            case ast.FunctionDef(returns=ast.expr() as returns, decorator_list=decorators):
                yield from map(_span, [returns, *decorators])
            case ast.ClassDef(decorator_list=decorators):
                yield from map(_span, decorators)
            case ast.Raise(exc=ast.Call(args=words)):
                yield from map(_span, words)
            case ast.keyword(arg="strict", value=value):
                # Of `zip`: an assertion, that its arguments are of one length.
                yield _span(value)
    for statement in tree.body:
        # A name for a type.
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript):
            yield _span(statement.value)


def _span(node: ast.expr) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODULES:
        for mutant in mutants(Path(name)):
            sys.stdout.write(json.dumps(mutant) + "\n")
