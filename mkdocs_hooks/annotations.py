"""Types of parameters as a reader says them: without bounds, which docstrings tell, and with bars for unions."""

import ast

import griffe


class Readable(griffe.Extension):
    """Rewrites what Python tells of the types of fields."""

    def on_function(self, *, func: griffe.Function, **_) -> None:
        """Rewrite the types of all parameters of a function."""
        for parameter in func.parameters:
            text = str(parameter.annotation)
            if "Annotated[" in text or "Union[" in text or "Optional[" in text:
                parameter.annotation = ast.unparse(Plain().visit(ast.parse(text, mode="eval")))


class Plain(ast.NodeTransformer):
    """Annotated[T, ...] becomes T, and Union[A, B] and Optional[A] become A | B and A | None."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Rewrite a type with parameters."""
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if name == "Annotated":
            return parts[0]
        if name in ("Union", "Optional"):
            joined, *others = [*parts, ast.Constant(None)] if name == "Optional" else parts
            for other in others:
                joined = ast.BinOp(joined, ast.BitOr(), other)
            return joined
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rewrite a type without parameters."""
        return ast.Constant(None) if node.id == "NoneType" else node
