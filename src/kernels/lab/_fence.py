"""Memory in which a learner's kernel can do no harm unseen: guard zones, poison, and a watch on every access.

Every tensor of a graded call lies between two guard zones, and what the launcher allocates is poisoned, so an
element that nobody wrote and a write beyond a tensor both show afterwards, on the CPU and on the GPU. In
Triton's interpreter each single access is checked as well: one that is out of bounds is recorded and not
carried out, so a read past the end is found even when its value is never used, and a wild address cannot end
Python.
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.lab import _mode
from kernels.lab._exercise import Layout

GUARD_BYTES = 1 << 16
_GUARD = 0x7F  # as float32, bfloat16: 3.4e38, which spoils a sum and a maximum; as float16: NaN
_POISON = 0xFF  # NaN in every floating-point type, and not the NaN that arithmetic makes
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
FAR = (1 << 30) + 16
"""Elements between neighbours along the first dimension in the layout `far`: the third lies beyond 2^31."""

# What a launcher may ask of torch besides views, which make no new memory: to allocate, to fill and to copy.
_ALLOCATES = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones",
    "full", "full_like", "new_full", "arange", "scalar_tensor", "lift_fresh", "lift_fresh_copy",
}  # fmt: skip
_COPIES = {"clone", "_to_copy", "copy_", "fill_", "zero_", "contiguous", "resize_", "set_"}
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


@dataclass(eq=False)
class Buffer:
    """A tensor in memory of its own.

    `raw` holds the bytes of two guard zones and, between them, of the tensor; None where there are no zones.
    """

    name: str
    tensor: torch.Tensor
    raw: torch.Tensor | None = None
    is_output: bool = False

    def __post_init__(self) -> None:
        self.start: int = self.tensor.data_ptr()
        self.item = self.tensor.element_size()
        self.span = _span(self.tensor.shape, self.tensor.stride())

    @functools.cached_property
    def positions(self) -> Any:
        """Where the elements lie, in order, in elements from the first one."""
        positions = np.zeros(1 if self.span else 0, dtype=np.int64)
        for length, step in zip(self.tensor.shape, self.tensor.stride(), strict=True):
            positions = (positions[:, None] + np.arange(length, dtype=np.int64) * step).ravel()
        return np.unique(positions)

    @functools.cached_property
    def writer(self) -> Any:
        """Which program wrote each element last, in this launch; -1 for none."""
        return np.full(len(self.positions), -1, dtype=np.int64)

    @property
    def end(self) -> int:
        """The address behind the last element."""
        return self.start + self.span * self.item

    def holds(self, addresses: Any) -> Any:
        """Tell of each address whether an element begins there."""
        if not self.span:
            return np.zeros(addresses.shape, dtype=bool)
        if self.span == self.tensor.numel():
            return (
                (addresses >= self.start)
                & (addresses < self.end)
                & ((addresses - self.start) % self.item == 0)
            )
        return self.positions[self.index(addresses)] * self.item == addresses - self.start

    def index(self, addresses: Any) -> Any:
        """Return, of addresses that are held, which element in order of memory each one is."""
        return np.searchsorted(self.positions, (addresses - self.start) // self.item).clip(
            0, len(self.positions) - 1
        )

    def damage(self) -> list[int]:
        """Return the positions, in elements from the first one, of what was written outside the elements."""
        if self.raw is None:
            return []
        # An empty view has no address of its own.
        first = self.start - self.raw.data_ptr() if self.span else GUARD_BYTES
        owned = torch.zeros(self.raw.numel(), dtype=torch.bool)
        for byte in range(self.item):
            owned[torch.from_numpy(first + self.positions * self.item + byte)] = True
        stray = ((self.raw.cpu() != _GUARD) & ~owned).nonzero().flatten() - first
        return list(dict.fromkeys((stray // self.item).tolist()))


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Mark the elements that hold the poison, on the CPU."""
    data = tensor.detach().cpu().contiguous()
    if data.numel() == 0:
        return torch.zeros(data.shape, dtype=torch.bool)
    return (data.view(-1).view(torch.uint8).view(-1, data.element_size()) == _POISON).all(1).view(data.shape)


@dataclass(frozen=True)
class Stray:
    """Accesses outside every element of one buffer: positions count elements from its first one.

    `program` made the first of them; None when only the guard zones tell. `wrapped` says that the address is
    right but for 2^32 elements.
    """

    write: bool
    buffer: Buffer
    first: int
    program: tuple[int, int, int] | None = None
    wrapped: bool = False
    only_one: bool = True

    @property
    def where(self) -> str:
        """`"before-start"`, `"past-end"` or `"between"` the elements of a strided tensor."""
        if self.first < 0:
            return "before-start"
        return "past-end" if self.first >= self.buffer.span else "between"


def _span(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))


def _strides(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    if layout == "transposed":
        return tuple(torch.empty(shape[::-1], device="meta").permute(*reversed(range(len(shape)))).stride())
    step, strides = (2 if layout == "strided" else 1), []
    for dim, length in reversed(list(enumerate(shape))):
        strides.append(step)
        padding = 3 if layout == "padded" and dim == len(shape) - 1 else 0
        step *= max(length, 1) + padding
    if layout == "far":
        strides[-1] = FAR
    return tuple(reversed(strides))


class Fence:
    """The memory of one graded call."""

    def __init__(self, device: torch.device):
        self.device = device
        self.buffers: list[Buffer] = []
        self.strays: dict[tuple[bool, str, str], Stray] = {}
        self.computed: list[str] = []
        self.launches = 0
        self.accesses = 0
        self.read_unwritten = False
        self.written_twice = False
        self.inside_kernel = False

    def place(self, name: str, values: torch.Tensor, layout: Layout) -> Buffer:
        """Put an input into fenced memory.

        `contiguous`: as torch allocates it. `offset`: contiguous, but one element after an aligned address,
        as `t[1:]` is. `strided`: every second element along the last dimension. `padded`: rows with a gap of 3
        elements, as in a slice of a wider matrix. `transposed`: the first dimension is the contiguous one.
        `far`: the third element along the first dimension lies more than 2^31 elements from the first (no guard
        zones; the memory between is reserved and, on the CPU, never touched).
        """
        stride = _strides(tuple(values.shape), layout)
        if layout == "far":
            whole = torch.empty(_span(values.shape, stride), dtype=values.dtype, device=self.device)
            buffer = Buffer(name, whole.as_strided(values.shape, stride))
            self.buffers.append(buffer)
        else:
            buffer = self._allocate(name, values.shape, stride, values.dtype, 1 if layout == "offset" else 0)
        buffer.tensor.copy_(values)
        return buffer

    def _allocate(
        self, name: str, shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype, shift: int = 0
    ) -> Buffer:
        n_bytes = (_span(shape, stride) + shift) * dtype.itemsize
        raw = torch.full(
            (2 * GUARD_BYTES + -(-n_bytes // 16) * 16,), _GUARD, dtype=torch.uint8, device=self.device
        )
        typed = raw[GUARD_BYTES : GUARD_BYTES + n_bytes].view(dtype)
        tensor = typed.as_strided(shape, stride, typed.storage_offset() + shift)
        buffer = Buffer(name, tensor, raw)
        self.buffers.append(buffer)
        return buffer

    def adopt(self, tensor: torch.Tensor, *, poison: bool) -> torch.Tensor:
        """Return fenced memory like `tensor`, poisoned or with its content."""
        if tensor.device.type != self.device.type or tensor.layout != torch.strided or self._knows(tensor):
            return tensor
        number = sum(b.is_output for b in self.buffers) + 1
        name = "the output" if number == 1 else f"allocation {number}"
        buffer = self._allocate(name, tensor.shape, tensor.stride(), tensor.dtype)
        buffer.is_output = True
        if not poison:
            buffer.tensor.copy_(tensor)
        else:
            buffer.tensor.view(_BITS[buffer.item]).fill_(-1)  # every bit set: the poison
        return buffer.tensor

    def holder(self, tensor: torch.Tensor) -> Buffer | None:
        """Return the buffer whose memory `tensor` uses."""
        storage = tensor.untyped_storage().data_ptr()
        return next((b for b in self.buffers if b.tensor.untyped_storage().data_ptr() == storage), None)

    def _knows(self, tensor: torch.Tensor) -> bool:
        return self.holder(tensor) is not None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what runs inside: allocations, computing by torch, launches and, interpreted, each access."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_interpreted(self) if _mode.interpreting() else _compiled(self))
            stack.enter_context(_Sentry(self))
            yield

    # What follows is called by the interpreter's watch.

    def enter_kernel(self, arguments: Iterable[Any]) -> None:
        """Note a launch; memory that was allocated before the check belongs to the kernel too."""
        self.launches += 1
        for tensor in arguments:
            if isinstance(tensor, torch.Tensor) and tensor.numel() and not self._knows(tensor):
                self.buffers.append(Buffer("a tensor kept from earlier", tensor))
        for buffer in self.buffers:
            buffer.writer.fill(-1)
        self.inside_kernel = True

    def inspect(self, pointers: Any, mask: Any, *, write: bool, program: tuple[int, int, int]) -> Any:
        """Return `mask` without the lanes that point outside every element, and record those."""
        addresses, wanted = pointers.ravel().astype(np.int64), np.broadcast_to(mask, pointers.shape).ravel()
        good = np.zeros(addresses.shape, dtype=bool)
        for buffer in self.buffers:
            inside = buffer.holds(addresses)
            good |= inside
            if write and buffer.is_output and (inside & wanted).any():
                self._note_writer(buffer, buffer.index(addresses[inside & wanted]), program)
            if (good | ~wanted).all():
                break
        stray = addresses[wanted & ~good]
        for address in stray[[0, -1]] if len(stray) else ():  # two tell whether it is one place or more
            self._note_stray(int(address), write, program)
        self.accesses += 1
        return (wanted & good).reshape(pointers.shape)

    def note_values(self, pointers: Any, mask: Any, values: Any) -> None:
        """Note that a load returned the poison of an output that nobody had written."""
        if not self.read_unwritten and mask.any():
            loaded = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(mask.size, -1)
            poison = (loaded == _POISON).all(1) & mask.ravel()
            addresses = pointers.ravel()[poison].astype(np.int64)
            self.read_unwritten = any(b.is_output and b.holds(addresses).any() for b in self.buffers)

    def _note_writer(self, buffer: Buffer, elements: Any, program: tuple[int, int, int]) -> None:
        number = (program[0] << 40) + (program[1] << 20) + program[2]
        earlier = buffer.writer[elements]
        self.written_twice |= bool(((earlier != -1) & (earlier != number)).any())
        buffer.writer[elements] = number

    def _note_stray(self, address: int, write: bool, program: tuple[int, int, int]) -> None:
        def distance(buffer: Buffer, at: int) -> int:
            return max(buffer.start - at, at - buffer.end + 1, 0)

        nearest, wrapped = min(self.buffers, key=lambda b: distance(b, address)), False
        for buffer in self.buffers:
            unwrapped = address + np.array([-1, 1]) * (buffer.item << 32)
            if buffer.holds(unwrapped).any():
                nearest, wrapped = buffer, True
        stray = Stray(write, nearest, (address - nearest.start) // nearest.item, program, wrapped)
        self.note(stray)

    def note(self, stray: Stray) -> None:
        """Record a stray access; of several of one kind the first one stands for all."""
        key = (stray.write, stray.buffer.name, "wrapped" if stray.wrapped else stray.where)
        known = self.strays.setdefault(key, stray)
        if known.first != stray.first:
            self.strays[key] = replace(known, only_one=False)


class _Sentry(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fences what the launcher allocates and notes what it lets torch compute."""

    def __init__(self, fence: Fence):
        super().__init__()  # type: ignore[no-untyped-call]
        self.fence = fence

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.fence.inside_kernel:
            return out
        name = func.overloadpacket.__name__
        if not (name in _ALLOCATES or name in _COPIES or func.is_view):
            self.fence.computed.append(name)
        if isinstance(out, torch.Tensor):
            return out if func.is_view else self.fence.adopt(out, poison=name in _UNWRITTEN)
        return out


@contextlib.contextmanager
def _compiled(fence: Fence) -> Iterator[None]:
    import triton

    def launched(_: Any) -> None:
        fence.launches += 1

    hooks = triton.knobs.runtime.launch_enter_hook
    hooks.add(launched)
    try:
        yield
    finally:
        hooks.remove(launched)


class _CheckedMemory:
    """Stands in for the interpreter's access to memory: the same functions, each address checked first."""

    def __init__(self, fence: Fence, real: Any, builder: Any):
        self._fence, self._real, self._builder = fence, real, builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _allowed(self, pointers: Any, mask: Any, write: bool) -> Any:
        return self._fence.inspect(pointers, mask, write=write, program=self._builder.grid_idx)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        allowed = self._allowed(pointers, mask, write=False)
        values = self._real.load(pointers, allowed, other, dtype)
        self._fence.note_values(pointers, allowed, values)
        stray = (np.broadcast_to(mask, pointers.shape) & ~allowed).ravel()
        if stray.any():
            values = np.array(values)
            values.reshape(-1).view(np.uint8).reshape(len(stray), -1)[stray] = _GUARD
        return values

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        return self._real.store(pointers, values, self._allowed(pointers, mask, write=True))

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        return self._real.atomic_rmw(
            operation, pointers, values, self._allowed(pointers, mask, write=True), order
        )

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        if not self._allowed(pointers, np.ones(pointers.shape, dtype=bool), write=True).all():
            return expected  # it has no mask: leave the memory alone, and let a loop that waits for it end
        return self._real.atomic_cas(pointers, expected, values, order)


_EXECUTOR = ("__call__", "_init_args_hst", "_restore_args_dev")


@contextlib.contextmanager
def _interpreted(fence: Fence) -> Iterator[None]:
    """Check each access. Triton's interpreter has no hook for it, so its module is patched for the call."""
    from triton.runtime import interpreter

    executor = interpreter.GridExecutor
    memory, originals = interpreter._interpreter, {name: getattr(executor, name) for name in _EXECUTOR}

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        fence.enter_kernel((*args, *kwargs.values()))
        try:
            return originals["__call__"](self, *args, **kwargs)
        finally:
            fence.inside_kernel = False

    # The interpreter copies each storage to the CPU and back, guard zones too; ours is on the CPU already.
    patched = {
        "__call__": watched,
        "_init_args_hst": lambda self, *a: a,
        "_restore_args_dev": lambda *a: None,
    }
    interpreter._interpreter = _CheckedMemory(fence, memory, interpreter.interpreter_builder)
    try:
        for name in _EXECUTOR:
            setattr(executor, name, patched[name])
        with np.errstate(all="ignore"):
            yield
    finally:
        interpreter._interpreter = memory
        for name in _EXECUTOR:
            setattr(executor, name, originals[name])
