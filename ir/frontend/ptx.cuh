// Instructions of PTX whose result is exact, by opcode with dots as underscores (PTX ISA 8.5, chapter 9.7). Each line is read only when used.
__device__ unsigned int bfe_u32(unsigned int a, unsigned int b, unsigned int c) { const unsigned int start = b & 255u, count = c & 255u; return start > 31u || count == 0u ? 0u : (a >> start) & (count > 31u ? 0xffffffffu : (1u << count) - 1u); }
__device__ int bfe_s32(int a, unsigned int b, unsigned int c) { const unsigned int start = b & 255u, count = c & 255u; if (count == 0u) return 0; if (start > 31u) return a >> 31; const int rest = a >> (int)start; return start + count > 31u ? rest : (int)((unsigned int)rest << (32u - count)) >> (int)(32u - count); }
__device__ unsigned int bfi_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int d) { const unsigned int start = c & 255u, count = d & 255u; const unsigned int mask = start > 31u || count == 0u ? 0u : (count > 31u ? 0xffffffffu : (1u << count) - 1u) << start; return (b & ~mask) | ((start > 31u ? 0u : a << start) & mask); }
__device__ unsigned int lop3_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int table) { return ((table & 1u) != 0u ? ~a & ~b & ~c : 0u) | ((table & 2u) != 0u ? ~a & ~b & c : 0u) | ((table & 4u) != 0u ? ~a & b & ~c : 0u) | ((table & 8u) != 0u ? ~a & b & c : 0u) | ((table & 16u) != 0u ? a & ~b & ~c : 0u) | ((table & 32u) != 0u ? a & ~b & c : 0u) | ((table & 64u) != 0u ? a & b & ~c : 0u) | ((table & 128u) != 0u ? a & b & c : 0u); }
__device__ unsigned int prmt_b32(unsigned int a, unsigned int b, unsigned int c) { const unsigned long long both = ((unsigned long long)b << 32) | a; unsigned int r = 0u; for (int i = 0; i < 4; ++i) { const unsigned int pick = (c >> (4 * i)) & 15u; const unsigned int byte = (unsigned int)(both >> (8u * (pick & 7u))) & 255u; r |= ((pick & 8u) != 0u ? ((byte & 128u) != 0u ? 255u : 0u) : byte) << (8 * i); } return r; }
__device__ unsigned int shl_b32(unsigned int a, unsigned int b) { return b > 31u ? 0u : a << b; }
__device__ unsigned int shr_u32(unsigned int a, unsigned int b) { return b > 31u ? 0u : a >> b; }
__device__ unsigned int shr_b32(unsigned int a, unsigned int b) { return b > 31u ? 0u : a >> b; }
__device__ int shr_s32(int a, unsigned int b) { return a >> (int)(b > 31u ? 31u : b); }
__device__ unsigned long long shl_b64(unsigned long long a, unsigned int b) { return b > 63u ? 0ull : a << b; }
__device__ unsigned long long shr_u64(unsigned long long a, unsigned int b) { return b > 63u ? 0ull : a >> b; }
__device__ unsigned int shf_l_wrap_b32(unsigned int a, unsigned int b, unsigned int c) { return __funnelshift_l(a, b, c); }
__device__ unsigned int shf_r_wrap_b32(unsigned int a, unsigned int b, unsigned int c) { return __funnelshift_r(a, b, c); }
__device__ unsigned int shf_l_clamp_b32(unsigned int a, unsigned int b, unsigned int c) { return __funnelshift_lc(a, b, c); }
__device__ unsigned int shf_r_clamp_b32(unsigned int a, unsigned int b, unsigned int c) { return __funnelshift_rc(a, b, c); }
__device__ unsigned int and_b32(unsigned int a, unsigned int b) { return a & b; }
__device__ unsigned int or_b32(unsigned int a, unsigned int b) { return a | b; }
__device__ unsigned int xor_b32(unsigned int a, unsigned int b) { return a ^ b; }
__device__ unsigned int not_b32(unsigned int a) { return ~a; }
__device__ unsigned int add_u32(unsigned int a, unsigned int b) { return a + b; }
__device__ unsigned int add_s32(unsigned int a, unsigned int b) { return a + b; }
__device__ unsigned int sub_u32(unsigned int a, unsigned int b) { return a - b; }
__device__ unsigned int sub_s32(unsigned int a, unsigned int b) { return a - b; }
__device__ unsigned int mul_lo_u32(unsigned int a, unsigned int b) { return a * b; }
__device__ unsigned int mul_lo_s32(unsigned int a, unsigned int b) { return a * b; }
__device__ unsigned int mul_hi_u32(unsigned int a, unsigned int b) { return __umulhi(a, b); }
__device__ int mul_hi_s32(int a, int b) { return __mulhi(a, b); }
__device__ unsigned long long mul_wide_u32(unsigned int a, unsigned int b) { return (unsigned long long)a * b; }
__device__ long long mul_wide_s32(int a, int b) { return (long long)a * b; }
__device__ unsigned int mad_lo_u32(unsigned int a, unsigned int b, unsigned int c) { return a * b + c; }
__device__ unsigned int mad_lo_s32(unsigned int a, unsigned int b, unsigned int c) { return a * b + c; }
__device__ unsigned int mad_hi_u32(unsigned int a, unsigned int b, unsigned int c) { return __umulhi(a, b) + c; }
__device__ unsigned long long mad_wide_u32(unsigned int a, unsigned int b, unsigned long long c) { return (unsigned long long)a * b + c; }
__device__ unsigned int popc_b32(unsigned int a) { return (unsigned int)__popc(a); }
__device__ unsigned int clz_b32(unsigned int a) { return (unsigned int)__clz((int)a); }
__device__ unsigned int brev_b32(unsigned int a) { return __brev(a); }
__device__ unsigned int min_u32(unsigned int a, unsigned int b) { return a < b ? a : b; }
__device__ unsigned int max_u32(unsigned int a, unsigned int b) { return a > b ? a : b; }
__device__ int min_s32(int a, int b) { return a < b ? a : b; }
__device__ int max_s32(int a, int b) { return a > b ? a : b; }
__device__ unsigned int mov_u32(unsigned int a) { return a; }
__device__ unsigned int mov_b32(unsigned int a) { return a; }
__device__ unsigned int mov_s32(unsigned int a) { return a; }
__device__ float fma_rn_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ unsigned int laneid() { return ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; }
__device__ unsigned int lanemask_eq() { return 1u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u); }
__device__ unsigned int lanemask_lt() { return (1u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u)) - 1u; }
__device__ unsigned int lanemask_le() { return (2u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u)) - 1u; }
__device__ unsigned int lanemask_gt() { return ~((2u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u)) - 1u); }
__device__ unsigned int lanemask_ge() { return ~((1u << (((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u)) - 1u); }
__device__ unsigned int tid_x() { return threadIdx.x; }
__device__ unsigned int tid_y() { return threadIdx.y; }
__device__ unsigned int tid_z() { return threadIdx.z; }
__device__ unsigned int ntid_x() { return blockDim.x; }
__device__ unsigned int ntid_y() { return blockDim.y; }
__device__ unsigned int ntid_z() { return blockDim.z; }
__device__ unsigned int ctaid_x() { return blockIdx.x; }
__device__ unsigned int ctaid_y() { return blockIdx.y; }
__device__ unsigned int ctaid_z() { return blockIdx.z; }
__device__ unsigned int nctaid_x() { return gridDim.x; }
__device__ unsigned int nctaid_y() { return gridDim.y; }
__device__ unsigned int nctaid_z() { return gridDim.z; }
__device__ void bar_sync() { __syncthreads(); }
__device__ void membar_cta() { __threadfence_block(); }
__device__ void membar_gl() { __threadfence(); }
__device__ void membar_sys() { __threadfence_system(); }
