// What kernels that reduce rows share: element types, packs of neighbouring elements, and a reduction over the threads of a row.
// No header of the CUDA toolkit is needed, so that NVRTC alone can compile it.

// Element types. A 32-bit register holds one float32 or two 16-bit floats; all arithmetic is done in float32.
// `joined` rounds to the nearest, ties to even.
struct float32 {
    float value;
    static constexpr int PER_WORD = 1;
    static __device__ float low(unsigned word) { return __uint_as_float(word); }
    static __device__ float high(unsigned word) { return __uint_as_float(word); }
    static __device__ unsigned joined(float low, float) { return __float_as_uint(low); }
};

struct float16 {
    unsigned short bits;
    static constexpr int PER_WORD = 2;
    static __device__ float widened(unsigned short bits)
    {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
        return wide;
    }
    static __device__ float low(unsigned word) { return widened(word & 0xffff); }
    static __device__ float high(unsigned word) { return widened(word >> 16); }
    static __device__ unsigned joined(float low, float high)
    {
        unsigned short first, second;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(first) : "f"(low));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(second) : "f"(high));
        return (unsigned)second << 16 | first;
    }
};

struct bfloat16 {
    unsigned short bits;
    static constexpr int PER_WORD = 2;
    // A bfloat16 is the upper half of a float32.
    static __device__ float low(unsigned word) { return __uint_as_float(word << 16); }
    static __device__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000); }
    static __device__ unsigned joined(float low, float high)
    {
#if __CUDA_ARCH__ >= 800
        unsigned word;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
        return word;
#else
        return rounded(high) << 16 | rounded(low);
#endif
    }
    static __device__ unsigned rounded(float value)  // for GPUs that have no instruction for it
    {
        unsigned bits = __float_as_uint(value);
        return (value == value ? bits + 0x7fff + (bits >> 16 & 1) : bits | 0x400000) >> 16;  // a NaN stays one
    }
};

// SIZE neighbouring elements in registers, loaded and stored with one instruction of up to 16 bytes.
template <typename T, int SIZE>
struct Pack {
    static constexpr int BYTES = SIZE * sizeof(T), WORDS = (BYTES + 3) / 4;
    unsigned words[WORDS];

    static __device__ Pack load(const T* from)
    {
        Pack pack;
        if constexpr (BYTES == 16) {
            uint4 all = *reinterpret_cast<const uint4*>(from);
            pack.words[0] = all.x, pack.words[1] = all.y, pack.words[2] = all.z, pack.words[3] = all.w;
        } else if constexpr (BYTES == 8) {
            uint2 all = *reinterpret_cast<const uint2*>(from);
            pack.words[0] = all.x, pack.words[1] = all.y;
        } else if constexpr (BYTES == 4)
            pack.words[0] = *reinterpret_cast<const unsigned*>(from);
        else
            pack.words[0] = *reinterpret_cast<const unsigned short*>(from);
        return pack;
    }

    __device__ void store(T* to) const
    {
        if constexpr (BYTES == 16)
            *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
        else if constexpr (BYTES == 8)
            *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
        else if constexpr (BYTES == 4)
            *reinterpret_cast<unsigned*>(to) = words[0];
        else
            *reinterpret_cast<unsigned short*>(to) = words[0];
    }

    // For what is not read again: it leaves the L2 cache to others.
    __device__ void store_streaming(T* to) const
    {
        if constexpr (BYTES == 16)
            __stcs(reinterpret_cast<uint4*>(to), make_uint4(words[0], words[1], words[2], words[3]));
        else
            store(to);
    }

    static __device__ Pack filled(float value)
    {
        Pack pack;
        for (int word = 0; word < WORDS; ++word)
            pack.words[word] = T::joined(value, value);
        return pack;
    }

    // Element k in float32.
    __device__ float operator[](int k) const
    {
        unsigned word = words[k / T::PER_WORD];
        return k % T::PER_WORD ? T::high(word) : T::low(word);
    }

    // Each element becomes f(element, k), rounded.
    template <typename F>
    __device__ void update(F f)
    {
#pragma unroll
        for (int k = 0; k < SIZE; k += T::PER_WORD) {
            float first = f((*this)[k], k);
            float second = T::PER_WORD == 2 && k + 1 < SIZE ? f((*this)[k + 1], k + 1) : 0;
            words[k / T::PER_WORD] = T::joined(first, second);
        }
    }

    // Makes the compiler unpack again, once `known` is known: kept unpacked from its last use, a row takes twice the registers.
    // `zero` must be 0, and the compiler must not be able to tell.
    __device__ void unpack_after(float known, unsigned zero)
    {
#pragma unroll
        for (int word = 0; word < WORDS; ++word)
            words[word] ^= __float_as_uint(known) & zero;
    }
};

struct Sum {
    static __device__ float of(float a, float b) { return a + b; }
};
struct Max {
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

// Combines the values of the lanes of a warp in groups of LANES; each lane gets its group's result.
template <typename Op, int LANES>
__device__ float reduce_lanes(float value)
{
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        value = Op::of(value, __shfl_xor_sync(0xffffffff, value, step));
    return value;
}

// Combines the values of the THREADS threads of a row; each gets the result. Every thread of the block takes part.
// `partial` has a place in shared memory for each warp of the block, and serves one reduction only.
template <typename Op, int THREADS>
__device__ float reduce_row(float value, float* partial)
{
    if constexpr (THREADS <= 32)
        return reduce_lanes<Op, THREADS>(value);
    else {
        constexpr int WARPS = THREADS / 32;
        value = reduce_lanes<Op, 32>(value);
        if (threadIdx.x % 32 == 0)
            partial[threadIdx.x / 32] = value;
        __syncthreads();
        int first = threadIdx.x / THREADS * WARPS;
        return reduce_lanes<Op, WARPS>(partial[first + threadIdx.x % WARPS]);
    }
}
