"""Tokens of CUDA C++: pycparser's lexer plus C++ keywords."""

from __future__ import annotations

from collections.abc import Mapping

from pycparser.c_lexer import CLexer, Token

CXX_KEYWORDS = {
    "__restrict__": "RESTRICT", "__restrict": "RESTRICT", "__inline__": "INLINE", "__inline": "INLINE",
    "__forceinline__": "INLINE", "__noinline__": "INLINE", "__volatile__": "VOLATILE", "__const__": "CONST",
    "__device__": "CUDA", "__host__": "CUDA", "__global__": "CUDA", "__shared__": "CUDA", "__constant__": "CUDA",
    "__managed__": "CUDA", "__grid_constant__": "CUDA", "__launch_bounds__": "CUDA_ARGS", "__align__": "CUDA_ARGS",
    "__cluster_dims__": "CUDA_ARGS", "__maxnreg__": "CUDA_ARGS", "__attribute__": "CUDA_ARGS",
    "__declspec": "CUDA_ARGS",
    "template": "TEMPLATE", "typename": "TYPENAME", "namespace": "NAMESPACE", "using": "USING", "class": "CLASS",
    "operator": "OPERATOR", "new": "NEW", "delete": "DELETE", "this": "THIS", "public": "ACCESS",
    "private": "ACCESS", "protected": "ACCESS", "friend": "FRIEND", "explicit": "CXX_SPEC", "virtual": "CXX_SPEC",
    "mutable": "CXX_SPEC", "consteval": "CXX_SPEC", "constinit": "CXX_SPEC", "static_cast": "CXX_CAST",
    "reinterpret_cast": "CXX_CAST", "const_cast": "CXX_CAST", "dynamic_cast": "CXX_CAST", "decltype": "DECLTYPE",
    "__typeof__": "DECLTYPE", "noexcept": "NOEXCEPT", "throw": "THROW", "try": "TRY", "catch": "CATCH",
    "asm": "ASM", "__asm__": "ASM", "__asm": "ASM", "wchar_t": "WCHAR", "_Atomic": "ID", "typeof": "DECLTYPE",
}  # fmt: skip
"""C++ and CUDA keywords by token type; the rest are pycparser's C23 ones."""

ALTERNATIVE = {"and": ("LAND", "&&"), "or": ("LOR", "||"), "not": ("LNOT", "!")}


class CudaLexer(CLexer):
    """pycparser's lexer in its C23 dialect with the keywords above; ``[[...]]`` attributes are kept as tokens."""

    def __init__(self, error_func, *, dialect="c23") -> None:
        super().__init__(self._illegal, dialect=dialect)
        self.words: Mapping[str, tuple[str, str] | None] = {}
        self._pending: list[Token] = []
        self._keyword_map.update(CXX_KEYWORDS)
        for word in ("offsetof", "_Generic", "_BitInt", "typeof_unqual"):
            self._keyword_map.pop(word, None)

    def _illegal(self, message: str, line: int, column: int) -> None:
        """A character that starts no token becomes one of type ILLEGAL: the parser refuses it, or recovery skips it."""
        self._pending.append(Token("ILLEGAL", message, line, column, self.filename))

    def token(self):
        """The next token, with the word operators spelled as symbols."""
        if self._pending:
            return self._pending.pop(0)
        tok = super().token()
        if self._pending:
            if tok is not None:
                self._pending.append(tok)
            return self._pending.pop(0)
        if tok is not None and tok.value in self.words:
            new = self.words[tok.value]
            if new is None:
                return self.token()
            tok.type, tok.value = new
        if tok is not None and tok.type == "ID" and tok.value in ALTERNATIVE:
            tok.type, tok.value = ALTERNATIVE[tok.value]
        return tok
