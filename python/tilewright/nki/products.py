"""What products and transposes of language-level operations are on the machine."""

from tilewright._core import Mask

from . import dtypes, lower, state


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
    """A mask of a matmul is over (contraction, columns of either operand), or over the result."""
    shape = list(mask.shape) if isinstance(mask, Mask) else []
    if not shape:
        return (stationary, moving, out if mask else None, True)
    full = [max(size, 1) for size in shape]
    if full == list(out.shape) or (len(full) == 2 and full[0] in (1, out.shape[0]) and full[1] in (1, out.shape[1])):
        return stationary, moving, out.masked(mask), mask
    cut = moving.masked(mask) if full[-1] in (1, moving.shape[-1]) else moving
    if cut is None:
        return stationary, moving, None, mask
    if cut.shape[0] != stationary.shape[0]:
        stationary = stationary[0 : cut.shape[0]]
    return stationary, cut, out[:, 0 : lower.free_size(cut)], lower.rows_mask(out.shape, [out.shape[0], lower.free_size(cut)])


def transpose(x, dtype=None, mask=None, engine=""):
    """x with partitions and free dimensions swapped."""
    partitions, columns = x.shape[0], lower.free_size(x)
    code = x.code if dtype is None else dtypes.code(dtype)
    if engine == "" and x.memory == "psum":
        x = lower.copy(x)
    block = engine == "vector" or (engine == "" and partitions <= 32 and columns <= 32)
    memory = "sbuf" if block else "psum"
    if mask is not None:
        part = x.masked(mask)
        out = lower.new([columns, partitions], code, memory)
        if not block:
            state.program.chosen_psum.add(out.storage_id)
        if part is None:
            out.set_mask(False)
            return out
        target = out[0 : lower.free_size(part), 0 : part.shape[0]]
        state.running().nc_transpose(target, part, "vector" if block else "")
        out.adopt(target, lower.rows_mask(out.shape, target.shape))
        return out
    out = lower.emit("nc_transpose", [columns, partitions], code, None, [x], "vector" if block else "", memory=memory)
    if not block:
        state.program.chosen_psum.add(out.storage_id)
    return out
