// Softmax of each row: out = exp(x - max(x)) / sum(exp(x - max(x))).

#define MINUS_INFINITY __uint_as_float(0xff800000)

// THREADS threads share a row and keep it in registers, PER packs of SIZE elements each: it is read once.
// A block has BLOCK / THREADS rows.
template <typename T, int SIZE, int PER, int THREADS, int BLOCK>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK) softmax_in_registers(
    const T* __restrict__ x, T* __restrict__ out, long long n_rows, long long n_cols, long long x_row_stride)
{
    __shared__ float partial[2][BLOCK / 32];
    const int thread = threadIdx.x % THREADS;
    const long long row = (long long)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    // A row past the last has no packs, but its threads take part in the reductions.
    const int n_packs = row < n_rows ? (int)(n_cols / SIZE) : 0;
    const unsigned zero = (unsigned)(n_cols >> 62);
    x += row * x_row_stride;
    out += row * n_cols;

    Pack<T, SIZE> held[PER];
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        int at = i * THREADS + thread;
        held[i] = at < n_packs ? Pack<T, SIZE>::load(x + at * SIZE) : Pack<T, SIZE>::filled(MINUS_INFINITY);
    }

    float largest = MINUS_INFINITY;
#pragma unroll
    for (int i = 0; i < PER; ++i)
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            largest = fmaxf(largest, held[i][k]);
    largest = reduce_row<Max, THREADS>(largest, partial[0]);

    float sum = 0;
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        held[i].unpack_after(largest, zero);
#pragma unroll
        for (int k = 0; k < SIZE; ++k)
            sum += __expf(held[i][k] - largest);
    }
    const float scale = __fdividef(1, reduce_row<Sum, THREADS>(sum, partial[1]));

#pragma unroll
    for (int i = 0; i < PER; ++i) {
        int at = i * THREADS + thread;
        held[i].unpack_after(scale, zero);
        // exp a second time: registers are scarcer than arithmetic.
        held[i].update([&](float value, int) { return __expf(value - largest) * scale; });
        if (at < n_packs)
            held[i].store(out + at * SIZE);
    }
}

// A block goes through its row twice, PER packs a thread at a time: for rows that registers cannot hold.
template <typename T, int SIZE, int PER, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_in_two_passes(
    const T* __restrict__ x, T* __restrict__ out, long long n_rows, long long n_cols, long long x_row_stride)
{
    __shared__ float partial[2][THREADS / 32];
    const long long row = blockIdx.x;
    x += row * x_row_stride;
    out += row * n_cols;
    const long long step = PER * THREADS * SIZE;

    // Each thread keeps the largest value that it has seen, and the sum of exp(value - largest).
    float largest = MINUS_INFINITY, sum = 0;
    long long start = 0;
    for (; start < n_cols; start += step) {
        Pack<T, SIZE> held[PER];
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            held[i] = at < n_cols ? Pack<T, SIZE>::load(x + at) : Pack<T, SIZE>::filled(MINUS_INFINITY);
        }
        const float before = largest;
#pragma unroll
        for (int i = 0; i < PER; ++i)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                largest = fmaxf(largest, held[i][k]);
        // As long as all are -inf, subtract 0: -inf - -inf would be NaN.
        const float shift = largest == MINUS_INFINITY ? 0 : largest;
        sum *= __expf(before - shift);
#pragma unroll
        for (int i = 0; i < PER; ++i)
#pragma unroll
            for (int k = 0; k < SIZE; ++k)
                sum += __expf(held[i][k] - shift);
    }
    const float of_row = reduce_row<Max, THREADS>(largest, partial[0]);
    const float scale = __fdividef(1, reduce_row<Sum, THREADS>(sum * __expf(largest - of_row), partial[1]));

    // Backwards: what was read last is still in the L2 cache.
    for (start -= step; start >= 0; start -= step) {
        Pack<T, SIZE> held[PER];
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            if (at < n_cols)
                held[i] = Pack<T, SIZE>::load(x + at);
        }
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            held[i].update([&](float value, int) { return __expf(value - of_row) * scale; });
            if (at < n_cols)
                held[i].store_streaming(out + at);
        }
    }
}
