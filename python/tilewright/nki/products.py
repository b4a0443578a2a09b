"""What products and transposes of language-level operations are on the machine."""

from tilewright._core import Mask

from . import dtypes, lower, masks, state


def matmul(x, y, transpose_x=False, mask=None):
    """x @ y in PSUM."""
    if not transpose_x:
        x = lower.copy(transpose(x, mask=mask), x.code)
        mask = None
    return nc_matmul(x, y, mask=mask)


def nc_matmul(stationary, moving, mask=None, is_transpose=False, **options):
    """stationary.T @ moving in PSUM."""
    stationary, moving = lower.in_sbuf(stationary), lower.in_sbuf(moving)
    code = stationary.code if is_transpose and state.running().generation >= 3 else dtypes.F32
    rows = 2 if options.get("double_row") else 1
    shape = [lower.free_size(stationary) // rows, lower.free_size(moving) // rows]
    out = lower.new(shape, code, "psum")
    if mask is not None:
        stationary, moving, target, mask = _matmul_masked(stationary, moving, out, mask)
        if target is None:
            out.set_mask(False)
            return out
        state.running().nc_matmul(target, stationary, moving, False, is_transpose, **options)
        out.adopt(target, mask)
        return out
    state.running().nc_matmul(out, stationary, moving, False, is_transpose, **options)
    return out


def _matmul_masked(stationary, moving, out, mask):
    """A mask of a matmul is over (contraction, columns of either operand), as its indices are those of the operands
    (NKI API masking); over the result if its first size is that of the result alone."""
    shape = list(mask.shape) if isinstance(mask, Mask) else []
    if not shape:
        return (stationary, moving, out if mask else None, True)
    if shape[0] not in (1, moving.shape[0]) and len(shape) == 2 and shape[0] == out.shape[0] and shape[1] in (1, out.shape[1]):
        return stationary, moving, out.masked(mask), mask
    cut, other = (moving, stationary) if shape[-1] in (1, moving.shape[-1]) else (stationary, moving)
    ranges = masks.left_of(cut, mask, "nc_matmul")
    rows, columns = ranges[0], masks.free_range(cut.shape, ranges, "nc_matmul")
    if rows[1] == 0 or columns[1] == 0:
        return stationary, moving, None, mask
    cut = masks.boxed(cut, ranges)
    other = masks.boxed(other, [rows] + [(0, size) for size in other.shape[1:]])
    left = [(0, out.shape[0]), columns]
    if shape[-1] not in (1, moving.shape[-1]):
        left, cut, other = [columns, (0, out.shape[1])], other, cut
    return other, cut, masks.boxed(out, left), masks.of_box(out.shape, left)


def transpose(x, dtype=None, mask=None, engine=""):
    """x with partitions and free dimensions swapped."""
    partitions, columns = x.shape[0], lower.free_size(x)
    code = x.code if dtype is None else dtypes.code(dtype)
    if engine == "" and x.memory == "psum":
        x = lower.copy(x)
    block = engine == "vector" or (engine == "" and partitions <= 32 and columns <= 32)
    memory = "sbuf" if block else "psum"
    if mask is not None:
        ranges, part = masks.left_of(x, mask, "nc_transpose"), x.masked(mask)
        out = lower.new([columns, partitions], code, memory)
        if not block:
            state.program.chosen_psum.add(out.storage_id)
        if part is None:
            out.set_mask(False)
            return out
        left = [masks.free_range(x.shape, ranges, "nc_transpose"), ranges[0]]
        target = masks.boxed(out, left)
        state.running().nc_transpose(target, part, "vector" if block else "")
        out.adopt(target, masks.of_box(out.shape, left))
        return out
    out = lower.emit("nc_transpose", [columns, partitions], code, None, [x], "vector" if block else "", memory=memory)
    if not block:
        state.program.chosen_psum.add(out.storage_id)
    return out
