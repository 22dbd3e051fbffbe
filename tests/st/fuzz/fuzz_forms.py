"""All forms of expressions, with their weights."""

from fuzz_bits import FORMS as BITS
from fuzz_indexing import FORMS as INDEXING
from fuzz_moves import FORMS as MOVES
from fuzz_products import FORMS as PRODUCTS
from fuzz_shapes import FORMS as SHAPES
from fuzz_storage import FORMS as STORAGE

FORMS = [*SHAPES, *MOVES, *BITS, *INDEXING, *STORAGE, *PRODUCTS]
