// out[i] = x[i] + y[i], twice: one float a thread, and four.

// Each thread adds one element: a warp's load is 32 neighbouring floats.
extern "C" __global__ void add_one_float(
    const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, long long n)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

// Each thread adds four neighbouring elements: one 16-byte load for each input, one 16-byte store.
// All three must start on a 16-byte boundary.
extern "C" __global__ void add_float4(
    const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, long long n)
{
    long long i = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 <= n) {
        float4 a = *reinterpret_cast<const float4*>(x + i);
        float4 b = *reinterpret_cast<const float4*>(y + i);
        *reinterpret_cast<float4*>(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else {
        for (; i < n; ++i)  // the last thread's one to three elements
            out[i] = x[i] + y[i];
    }
}
