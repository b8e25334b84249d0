// Residual add and RMSNorm of each row in one kernel: sum = x + residual, out = sum / sqrt(mean(sum^2) + eps) * weight.
// The sum is rounded to the row's type, and it is the rounded sum that is normalised and returned.

// Adds `b` to `a`, rounds, and adds the squares of what comes out to `squares`.
template <typename P>
__device__ void add_packs(P& a, const P& b, int size, float& squares)
{
    a.update([&](float value, int k) { return value + b[k]; });
#pragma unroll
    for (int k = 0; k < size; ++k)
        squares += a[k] * a[k];
}

// THREADS threads share a row and keep its sum in registers, PER packs of SIZE elements each: nothing is read twice.
// A block has BLOCK / THREADS rows.
template <typename T, int SIZE, int PER, int THREADS, int BLOCK>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK) add_rms_norm_in_registers(
    const T* __restrict__ x, const T* __restrict__ residual, const T* __restrict__ weight, T* __restrict__ out,
    T* __restrict__ sum, long long n_rows, long long n_cols, long long x_row_stride, long long residual_row_stride,
    float one_over_n, float eps)
{
    __shared__ float partial[BLOCK / 32];
    const int thread = threadIdx.x % THREADS;
    const long long row = (long long)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
    // A row past the last has no packs, but its threads take part in the reduction.
    const int n_packs = row < n_rows ? (int)(n_cols / SIZE) : 0;
    const unsigned zero = (unsigned)(n_cols >> 62);
    x += row * x_row_stride;
    residual += row * residual_row_stride;
    out += row * n_cols;
    sum += row * n_cols;

    Pack<T, SIZE> held[PER];
    float squares = 0;
    constexpr int BATCH = PER < 4 ? PER : 4;  // all loads of a batch are on their way before the first is needed
#pragma unroll
    for (int first = 0; first < PER; first += BATCH) {
        Pack<T, SIZE> added[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH && first + i < PER; ++i) {
            int at = (first + i) * THREADS + thread;
            held[first + i] = at < n_packs ? Pack<T, SIZE>::load(x + at * SIZE) : Pack<T, SIZE>::filled(0);
            added[i] = at < n_packs ? Pack<T, SIZE>::load(residual + at * SIZE) : Pack<T, SIZE>::filled(0);
        }
#pragma unroll
        for (int i = 0; i < BATCH && first + i < PER; ++i) {
            int at = (first + i) * THREADS + thread;
            add_packs(held[first + i], added[i], SIZE, squares);
            if (at < n_packs)
                held[first + i].store(sum + at * SIZE);
        }
    }

    const float scale = rsqrtf(reduce_row<Sum, THREADS>(squares, partial) * one_over_n + eps);
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        int at = i * THREADS + thread;
        held[i].unpack_after(scale, zero);
        if (at < n_packs) {
            Pack<T, SIZE> weights = Pack<T, SIZE>::load(weight + at * SIZE);
            held[i].update([&](float value, int k) { return value * scale * weights[k]; });
            held[i].store(out + at * SIZE);
        }
    }
}

// A block goes through its row twice, PER packs a thread at a time: for rows that registers cannot hold. The second time it
// reads the sum that it has written.
template <typename T, int SIZE, int PER, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) add_rms_norm_in_two_passes(
    const T* __restrict__ x, const T* __restrict__ residual, const T* __restrict__ weight, T* __restrict__ out,
    T* sum, long long n_rows, long long n_cols, long long x_row_stride, long long residual_row_stride,
    float one_over_n, float eps)
{
    __shared__ float partial[THREADS / 32];
    const long long row = blockIdx.x;
    x += row * x_row_stride;
    residual += row * residual_row_stride;
    out += row * n_cols;
    sum += row * n_cols;
    const long long step = PER * THREADS * SIZE;

    float squares = 0;
    long long start = 0;
    for (; start < n_cols; start += step) {
        Pack<T, SIZE> held[PER], added[PER];
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            held[i] = at < n_cols ? Pack<T, SIZE>::load(x + at) : Pack<T, SIZE>::filled(0);
            added[i] = at < n_cols ? Pack<T, SIZE>::load(residual + at) : Pack<T, SIZE>::filled(0);
        }
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            add_packs(held[i], added[i], SIZE, squares);
            if (at < n_cols)
                held[i].store(sum + at);
        }
    }

    const float scale = rsqrtf(reduce_row<Sum, THREADS>(squares, partial) * one_over_n + eps);
    // Backwards: what was written last is still in the L2 cache. Each thread reads what it wrote itself.
    for (start -= step; start >= 0; start -= step) {
        Pack<T, SIZE> held[PER];
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            if (at < n_cols)
                held[i] = Pack<T, SIZE>::load(sum + at);
        }
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            long long at = start + (i * THREADS + threadIdx.x) * SIZE;
            if (at < n_cols) {
                Pack<T, SIZE> weights = Pack<T, SIZE>::load(weight + at);
                held[i].update([&](float value, int k) { return value * scale * weights[k]; });
                held[i].store_streaming(out + at);
            }
        }
    }
}
