"""What the kernels that reduce rows share: how a tensor becomes rows, how rows become blocks, how a cluster waits."""

import torch
import triton
import triton.language as tl

WIDEST_CLUSTER = 2**19  # columns that the registers of a cluster of 16 thread blocks hold


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return x as a matrix whose rows are x's last dimension; a copy only where the elements of a row lie apart."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def block_of(n_cols: int) -> dict[str, int]:
    """Return how many whole rows of so many columns a program holds, in how many warps: arguments of a kernel's launch.

    Up to 1,024 columns a program is one warp, which waits for nobody, with rows enough for 32 elements a thread. Above,
    it is one row with 16 elements a thread, two loads of 16 bytes if an element has 2, while 32 warps can hold it so.
    """
    cols = triton.next_power_of_2(n_cols)
    warps = 1 if cols <= 1024 else min(32, cols // 512)
    return {"BLOCK_ROWS": max(1, 1024 // cols), "BLOCK_COLS": cols, "num_warps": warps}


def loop_of(n_cols: int) -> dict[str, int]:
    """Return how many columns a program that loops over its row takes at a time, in how many warps: 16 elements a thread."""
    size = min(8192, max(512, triton.next_power_of_2(n_cols)))
    return {"BLOCK_SIZE": size, "num_warps": size // 512}


def has_clusters(x: torch.Tensor) -> bool:
    """Whether several SMs can work on one program: compute capability 9.0 or higher, or the interpreter."""
    return not x.is_cuda or torch.cuda.get_device_capability(x.device)[0] >= 9


def cluster_suits(x: torch.Tensor, n_cols: int) -> bool:
    """Whether `cluster_of` can be launched for rows of so many columns.

    Triton arranges what a program loads by the alignment of each tensor's rows. Results lie close together, so at a width
    that is no multiple of 16 theirs can differ from the inputs', and a whole row would have to be rearranged between
    thread blocks: more shared memory than an SM has.
    """
    return has_clusters(x) and n_cols <= WIDEST_CLUSTER and n_cols % 16 == 0


def cluster_of(x: torch.Tensor, n_cols: int) -> dict[str, int | bool]:
    """Return into how many chunks a row is cut, one for each thread block of a cluster: arguments of a kernel's launch.

    A chunk has 8,192 columns, 16 for each of 512 threads, so that four thread blocks fit on an SM and some load while others
    wait. Chunks are wider only where a cluster cannot have more thread blocks: 8 anywhere (CUDA C++ Programming Guide), and
    16 on H100 and B200, compute capability 9.0 and 10.0 (Triton's launcher, which asks the driver for it).
    """
    most = 16 if not x.is_cuda or torch.cuda.get_device_capability(x.device)[0] in (9, 10) else 8
    chunks = min(max(2, triton.next_power_of_2(n_cols) // 8192), most)
    cols = max(512, triton.next_power_of_2(triton.cdiv(n_cols, chunks)))
    # The interpreter runs a program as a whole: there is nobody to wait for.
    shape = {"CHUNKS": chunks, "CHUNK_COLS": cols, "CLUSTER": x.is_cuda}
    return {**shape, "num_ctas": chunks, "num_warps": min(32, cols // 512)}


@triton.jit
def cluster_barrier():
    """Wait until all thread blocks of the cluster are here. What each stored before, all see after.

    Triton has no operation for it, so it is written in PTX. (The third instruction is there because Triton asks for a result.)
    """
    tl.inline_asm_elementwise(
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; mov.u32 $0, 0;",
        "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
