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
__device__ void trap() { __trap(); }
__device__ void membar_cta() { __threadfence_block(); }
__device__ void membar_gl() { __threadfence(); }
__device__ void membar_sys() { __threadfence_system(); }
__device__ unsigned long long add_u64(unsigned long long a, unsigned long long b) { return a + b; }
__device__ unsigned long long sub_u64(unsigned long long a, unsigned long long b) { return a - b; }
__device__ unsigned long long mul_lo_u64(unsigned long long a, unsigned long long b) { return a * b; }
__device__ unsigned long long mad_lo_u64(unsigned long long a, unsigned long long b, unsigned long long c) { return a * b + c; }
__device__ unsigned long long min_u64(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
__device__ unsigned long long max_u64(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
__device__ long long add_s64(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }
__device__ long long sub_s64(long long a, long long b) { return (long long)((unsigned long long)a - (unsigned long long)b); }
__device__ unsigned long long mul_lo_s64(unsigned long long a, unsigned long long b) { return a * b; }
__device__ unsigned long long mad_lo_s64(unsigned long long a, unsigned long long b, unsigned long long c) { return a * b + c; }
__device__ long long min_s64(long long a, long long b) { return a < b ? a : b; }
__device__ long long max_s64(long long a, long long b) { return a > b ? a : b; }
__device__ unsigned long long and_b64(unsigned long long a, unsigned long long b) { return a & b; }
__device__ unsigned long long or_b64(unsigned long long a, unsigned long long b) { return a | b; }
__device__ unsigned long long xor_b64(unsigned long long a, unsigned long long b) { return a ^ b; }
__device__ unsigned long long not_b64(unsigned long long a) { return ~a; }
__device__ unsigned long long mul_hi_u64(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
__device__ long long mul_hi_s64(long long a, long long b) { return __mul64hi(a, b); }
__device__ unsigned int mad_hi_s32(int a, int b, unsigned int c) { return (unsigned int)__mulhi(a, b) + c; }
__device__ long long mad_wide_s32(int a, int b, long long c) { return (long long)((unsigned long long)((long long)a * b) + (unsigned long long)c); }
__device__ long long shr_s64(long long a, unsigned int b) { return a >> (int)(b > 63u ? 63u : b); }
__device__ unsigned long long shr_b64(unsigned long long a, unsigned int b) { return b > 63u ? 0ull : a >> b; }
__device__ unsigned short and_b16(unsigned short a, unsigned short b) { return (unsigned short)(a & b); }
__device__ bool and_pred(bool a, bool b) { return a && b; }
__device__ unsigned short or_b16(unsigned short a, unsigned short b) { return (unsigned short)(a | b); }
__device__ bool or_pred(bool a, bool b) { return a || b; }
__device__ unsigned short xor_b16(unsigned short a, unsigned short b) { return (unsigned short)(a ^ b); }
__device__ bool xor_pred(bool a, bool b) { return a != b; }
__device__ bool not_pred(bool a) { return !a; }
__device__ unsigned short not_b16(unsigned short a) { return (unsigned short)~a; }
__device__ unsigned int neg_s32(unsigned int a) { return 0u - a; }
__device__ unsigned long long neg_s64(unsigned long long a) { return 0ull - a; }
__device__ unsigned int abs_s32(int a) { return a < 0 ? 0u - (unsigned int)a : (unsigned int)a; }
__device__ unsigned int div_u32(unsigned int a, unsigned int b) { return a / b; }
__device__ int div_s32(int a, int b) { return a / b; }
__device__ unsigned int rem_u32(unsigned int a, unsigned int b) { return a % b; }
__device__ int rem_s32(int a, int b) { return a % b; }
__device__ unsigned int popc_b64(unsigned long long a) { return (unsigned int)__popcll(a); }
__device__ unsigned int clz_b64(unsigned long long a) { return (unsigned int)__clzll((long long)a); }
__device__ unsigned long long brev_b64(unsigned long long a) { return __brevll(a); }
__device__ unsigned int bfind_u32(unsigned int a) { return 31u - (unsigned int)__clz((int)a); }
__device__ unsigned int bfind_s32(int a) { return 31u - (unsigned int)__clz(a < 0 ? ~a : a); }
__device__ unsigned int bfind_shiftamt_u32(unsigned int a) { return a == 0u ? 0xffffffffu : (unsigned int)__clz((int)a); }
__device__ unsigned int sad_u32(unsigned int a, unsigned int b, unsigned int c) { return (a < b ? b - a : a - b) + c; }
__device__ unsigned int slct_u32_s32(unsigned int a, unsigned int b, int c) { return c >= 0 ? a : b; }
__device__ int dp4a_s32_s32(int a, int b, int c) { return __dp4a(a, b, c); }
__device__ unsigned int dp4a_u32_u32(unsigned int a, unsigned int b, unsigned int c) { return __dp4a(a, b, c); }
__device__ float add_rn_f32(float a, float b) { return __fadd_rn(a, b); }
__device__ float add_f32(float a, float b) { return a + b; }
__device__ float sub_rn_f32(float a, float b) { return __fsub_rn(a, b); }
__device__ float sub_f32(float a, float b) { return a - b; }
__device__ float mul_rn_f32(float a, float b) { return __fmul_rn(a, b); }
__device__ float mul_f32(float a, float b) { return a * b; }
__device__ float neg_f32(float a) { return -a; }
__device__ float abs_f32(float a) { return fabsf(a); }
__device__ float min_f32(float a, float b) { return fminf(a, b); }
__device__ float max_f32(float a, float b) { return fmaxf(a, b); }
__device__ float div_rn_f32(float a, float b) { return __fdiv_rn(a, b); }
__device__ float sqrt_rn_f32(float a) { return __fsqrt_rn(a); }
__device__ float rcp_rn_f32(float a) { return __frcp_rn(a); }
__device__ double add_rn_f64(double a, double b) { return __dadd_rn(a, b); }
__device__ double add_f64(double a, double b) { return a + b; }
__device__ double sub_rn_f64(double a, double b) { return __dsub_rn(a, b); }
__device__ double sub_f64(double a, double b) { return a - b; }
__device__ double mul_rn_f64(double a, double b) { return __dmul_rn(a, b); }
__device__ double mul_f64(double a, double b) { return a * b; }
__device__ double neg_f64(double a) { return -a; }
__device__ double abs_f64(double a) { return fabs(a); }
__device__ double min_f64(double a, double b) { return fmin(a, b); }
__device__ double max_f64(double a, double b) { return fmax(a, b); }
__device__ double fma_rn_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ double div_rn_f64(double a, double b) { return __ddiv_rn(a, b); }
__device__ double sqrt_rn_f64(double a) { return __dsqrt_rn(a); }
__device__ double rcp_rn_f64(double a) { return __drcp_rn(a); }
__device__ float cvt_f32_f16(unsigned short a) { return __half2float(__ushort_as_half(a)); }
__device__ unsigned short cvt_rn_f16_f32(float a) { return __half_as_ushort(__float2half_rn(a)); }
__device__ float cvt_f32_bf16(unsigned short a) { return __bfloat162float(__ushort_as_bfloat16(a)); }
__device__ unsigned short cvt_rn_bf16_f32(float a) { return __bfloat16_as_ushort(__float2bfloat16_rn(a)); }
__device__ unsigned int cvt_rn_f16x2_f32(float a, float b) { return ((unsigned int)__half_as_ushort(__float2half_rn(a)) << 16) | __half_as_ushort(__float2half_rn(b)); }
__device__ unsigned int cvt_rn_bf16x2_f32(float a, float b) { return ((unsigned int)__bfloat16_as_ushort(__float2bfloat16_rn(a)) << 16) | __bfloat16_as_ushort(__float2bfloat16_rn(b)); }
__device__ float cvt_rn_f32_s32(int a) { return __int2float_rn(a); }
__device__ float cvt_rn_f32_u32(unsigned int a) { return __uint2float_rn(a); }
__device__ double cvt_f64_f32(float a) { return (double)a; }
__device__ float cvt_rn_f32_f64(double a) { return (float)a; }
__device__ double cvt_rn_f64_s32(int a) { return (double)a; }
__device__ double cvt_rn_f64_u32(unsigned int a) { return (double)a; }
__device__ int cvt_rni_s32_f32(float a) { return __float2int_rn(a); }
__device__ unsigned int cvt_rni_u32_f32(float a) { return __float2uint_rn(a); }
__device__ int cvt_rni_sat_s32_f32(float a) { return __float2int_rn(a); }
__device__ int cvt_rzi_s32_f32(float a) { return __float2int_rz(a); }
__device__ unsigned int cvt_rzi_u32_f32(float a) { return __float2uint_rz(a); }
__device__ int cvt_rzi_sat_s32_f32(float a) { return __float2int_rz(a); }
__device__ int cvt_rmi_s32_f32(float a) { return __float2int_rd(a); }
__device__ unsigned int cvt_rmi_u32_f32(float a) { return __float2uint_rd(a); }
__device__ int cvt_rmi_sat_s32_f32(float a) { return __float2int_rd(a); }
__device__ int cvt_rpi_s32_f32(float a) { return __float2int_ru(a); }
__device__ unsigned int cvt_rpi_u32_f32(float a) { return __float2uint_ru(a); }
__device__ int cvt_rpi_sat_s32_f32(float a) { return __float2int_ru(a); }
__device__ unsigned int cvt_rni_sat_s8_f32(float a) { const int r = __float2int_rn(a); return (unsigned int)(r < -128 ? -128 : (r > 127 ? 127 : r)); }
__device__ unsigned int cvt_rni_sat_u8_f32(float a) { const int r = __float2int_rn(a); return (unsigned int)(r < 0 ? 0 : (r > 255 ? 255 : r)); }
__device__ unsigned int cvt_rni_sat_s8_f16(unsigned short a) { const int r = __float2int_rn(__half2float(__ushort_as_half(a))); return (unsigned int)(r < -128 ? -128 : (r > 127 ? 127 : r)); }
__device__ unsigned int cvt_rni_sat_u8_f16(unsigned short a) { const int r = __float2int_rn(__half2float(__ushort_as_half(a))); return (unsigned int)(r < 0 ? 0 : (r > 255 ? 255 : r)); }
__device__ unsigned int cvt_sat_s8_s32(int a) { return (unsigned int)(a < -128 ? -128 : (a > 127 ? 127 : a)); }
__device__ unsigned int cvt_sat_u8_s32(int a) { return (unsigned int)(a < 0 ? 0 : (a > 255 ? 255 : a)); }
__device__ bool shfl_up_inside(unsigned int a, unsigned int b) { const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; const unsigned int seg = (b >> 8) & 31u; const unsigned int first = (at & seg) | (b & 31u & ~seg); return (int)at - (int)(a & 31u) >= (int)first; }
__device__ bool shfl_down_inside(unsigned int a, unsigned int b) { const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; const unsigned int seg = (b >> 8) & 31u; return (at + (a & 31u)) <= ((at & seg) | (b & 31u & ~seg)); }
__device__ bool shfl_bfly_inside(unsigned int a, unsigned int b) { const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; const unsigned int seg = (b >> 8) & 31u; return (at ^ (a & 31u)) <= ((at & seg) | (b & 31u & ~seg)); }
__device__ bool shfl_idx_inside(unsigned int a, unsigned int b) { const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; const unsigned int seg = (b >> 8) & 31u; return ((at & seg) | (a & 31u & ~seg)) <= ((at & seg) | (b & 31u & ~seg)); }
__device__ unsigned int shfl_sync_up_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int d) { if (c == 0u) return __shfl_up_sync(d, a, b & 31u); const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; return __shfl_sync(d, a, (int)(__ptx::shfl_up_inside(b, c) ? at - (b & 31u) : at)); }
__device__ unsigned int shfl_sync_down_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int d) { if (c == 31u) return __shfl_down_sync(d, a, b & 31u); const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; return __shfl_sync(d, a, (int)(__ptx::shfl_down_inside(b, c) ? at + (b & 31u) : at)); }
__device__ unsigned int shfl_sync_bfly_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int d) { if (c == 31u) return __shfl_xor_sync(d, a, (int)(b & 31u)); const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; return __shfl_sync(d, a, (int)(__ptx::shfl_bfly_inside(b, c) ? at ^ (b & 31u) : at)); }
__device__ unsigned int shfl_sync_idx_b32(unsigned int a, unsigned int b, unsigned int c, unsigned int d) { if (c == 31u) return __shfl_sync(d, a, (int)(b & 31u)); const unsigned int at = ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) & 31u; return __shfl_sync(d, a, (int)(__ptx::shfl_idx_inside(b, c) ? (at & ((c >> 8) & 31u)) | (b & 31u & ~((c >> 8) & 31u)) : at)); }
__device__ unsigned int activemask_b32() { return __activemask(); }
__device__ unsigned int vote_sync_ballot_b32(bool a, unsigned int b) { return __ballot_sync(b, a); }
__device__ bool vote_sync_any_pred(bool a, unsigned int b) { return __any_sync(b, a) != 0; }
__device__ bool vote_sync_all_pred(bool a, unsigned int b) { return __all_sync(b, a) != 0; }
__device__ unsigned int match_any_sync_b32(unsigned int a, unsigned int b) { return __match_any_sync(b, a); }
__device__ unsigned int redux_sync_add_u32(unsigned int a, unsigned int b) { return __reduce_add_sync(b, a); }
__device__ int redux_sync_add_s32(int a, unsigned int b) { return __reduce_add_sync(b, a); }
__device__ unsigned int redux_sync_min_u32(unsigned int a, unsigned int b) { return __reduce_min_sync(b, a); }
__device__ int redux_sync_min_s32(int a, unsigned int b) { return __reduce_min_sync(b, a); }
__device__ unsigned int redux_sync_max_u32(unsigned int a, unsigned int b) { return __reduce_max_sync(b, a); }
__device__ int redux_sync_max_s32(int a, unsigned int b) { return __reduce_max_sync(b, a); }
__device__ unsigned int redux_sync_and_b32(unsigned int a, unsigned int b) { return __reduce_and_sync(b, a); }
__device__ unsigned int redux_sync_or_b32(unsigned int a, unsigned int b) { return __reduce_or_sync(b, a); }
__device__ unsigned int redux_sync_xor_b32(unsigned int a, unsigned int b) { return __reduce_xor_sync(b, a); }
__device__ void griddepcontrol_wait() { cudaGridDependencySynchronize(); }
__device__ void griddepcontrol_launch_dependents() { cudaTriggerProgrammaticLaunchCompletion(); }
__device__ float tanh_approx_f32(float a) { return __tanhf(a); }
__device__ void bar_warp_sync(unsigned int a) { __syncwarp(a); }
__device__ void fence_acq_rel_gpu() { __threadfence(); }
__device__ void fence_acq_rel_cta() { __threadfence_block(); }
__device__ void fence_acq_rel_sys() { __threadfence_system(); }
__device__ unsigned int vabsdiff4_u32_u32_u32_add(unsigned int a, unsigned int b, unsigned int c) { return __vsadu4(a, b) + c; }
__device__ unsigned int vabsdiff4_u32_s32_s32_add(unsigned int a, unsigned int b, unsigned int c) { return __vsads4(a, b) + c; }
__device__ unsigned int vabsdiff2_u32_u32_u32_add(unsigned int a, unsigned int b, unsigned int c) { return __vsadu2(a, b) + c; }
__device__ unsigned int vabsdiff2_u32_s32_s32_add(unsigned int a, unsigned int b, unsigned int c) { return __vsads2(a, b) + c; }
__device__ unsigned int clock() { return (unsigned int)clock(); }
__device__ unsigned long long clock64() { return (unsigned long long)clock64(); }
__device__ unsigned long long globaltimer() { return __ktc_globaltimer(); }
__device__ unsigned short add_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hadd_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short add_rn_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hadd_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short sub_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hsub_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short sub_rn_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hsub_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short mul_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hmul_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short mul_rn_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hmul_rn(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short fma_rn_f16(unsigned short a, unsigned short b, unsigned short c) { return __half_as_ushort(__hfma(__ushort_as_half(a), __ushort_as_half(b), __ushort_as_half(c))); }
__device__ unsigned short min_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hmin(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short max_f16(unsigned short a, unsigned short b) { return __half_as_ushort(__hmax(__ushort_as_half(a), __ushort_as_half(b))); }
__device__ unsigned short neg_f16(unsigned short a) { return (unsigned short)(a ^ 0x8000u); }
__device__ unsigned short abs_f16(unsigned short a) { return (unsigned short)(a & 0x7fffu); }
__device__ unsigned short add_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hadd_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short add_rn_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hadd_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short sub_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hsub_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short sub_rn_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hsub_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short mul_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hmul_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short mul_rn_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hmul_rn(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short fma_rn_bf16(unsigned short a, unsigned short b, unsigned short c) { return __bfloat16_as_ushort(__hfma(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b), __ushort_as_bfloat16(c))); }
__device__ unsigned short min_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hmin(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short max_bf16(unsigned short a, unsigned short b) { return __bfloat16_as_ushort(__hmax(__ushort_as_bfloat16(a), __ushort_as_bfloat16(b))); }
__device__ unsigned short neg_bf16(unsigned short a) { return (unsigned short)(a ^ 0x8000u); }
__device__ unsigned short abs_bf16(unsigned short a) { return (unsigned short)(a & 0x7fffu); }
__device__ unsigned int add_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::add_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::add_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int add_rn_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::add_rn_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::add_rn_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int sub_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::sub_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::sub_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int sub_rn_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::sub_rn_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::sub_rn_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int mul_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::mul_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::mul_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int mul_rn_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::mul_rn_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::mul_rn_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int min_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::min_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::min_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int max_f16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::max_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::max_f16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int fma_rn_f16x2(unsigned int a, unsigned int b, unsigned int c) { return ((unsigned int)__ptx::fma_rn_f16((unsigned short)(a >> 16), (unsigned short)(b >> 16), (unsigned short)(c >> 16)) << 16) | __ptx::fma_rn_f16((unsigned short)a, (unsigned short)b, (unsigned short)c); }
__device__ unsigned int neg_f16x2(unsigned int a) { return ((unsigned int)__ptx::neg_f16((unsigned short)(a >> 16)) << 16) | __ptx::neg_f16((unsigned short)a); }
__device__ unsigned int abs_f16x2(unsigned int a) { return ((unsigned int)__ptx::abs_f16((unsigned short)(a >> 16)) << 16) | __ptx::abs_f16((unsigned short)a); }
__device__ unsigned int add_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::add_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::add_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int add_rn_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::add_rn_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::add_rn_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int sub_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::sub_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::sub_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int sub_rn_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::sub_rn_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::sub_rn_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int mul_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::mul_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::mul_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int mul_rn_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::mul_rn_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::mul_rn_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int min_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::min_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::min_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int max_bf16x2(unsigned int a, unsigned int b) { return ((unsigned int)__ptx::max_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16)) << 16) | __ptx::max_bf16((unsigned short)a, (unsigned short)b); }
__device__ unsigned int fma_rn_bf16x2(unsigned int a, unsigned int b, unsigned int c) { return ((unsigned int)__ptx::fma_rn_bf16((unsigned short)(a >> 16), (unsigned short)(b >> 16), (unsigned short)(c >> 16)) << 16) | __ptx::fma_rn_bf16((unsigned short)a, (unsigned short)b, (unsigned short)c); }
__device__ unsigned int neg_bf16x2(unsigned int a) { return ((unsigned int)__ptx::neg_bf16((unsigned short)(a >> 16)) << 16) | __ptx::neg_bf16((unsigned short)a); }
__device__ unsigned int abs_bf16x2(unsigned int a) { return ((unsigned int)__ptx::abs_bf16((unsigned short)(a >> 16)) << 16) | __ptx::abs_bf16((unsigned short)a); }
