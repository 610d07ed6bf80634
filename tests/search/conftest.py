"""The gate's tests share the interpreter's sample kernels."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "ir" / "interp"))
