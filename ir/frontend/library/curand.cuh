// cuRAND's device generators, from what the cuRAND guide and the generators' papers say of them: XORWOW (Marsaglia,
// "Xorshift RNGs", 2003), MRG32k3a (L'Ecuyer, 1999), Philox4x32-10 (Salmon et al., SC 2011) and Sobol' sequences by
// Gray code. States have cuRAND's layout, so that host code can allocate them, and states and numbers have its bits
// (compared with cuRAND 10.3 on an H200: 16,384 threads, every function of uniform and normal numbers below).
// Not here: MTGP32, whose parameters are tables of the host library, and Poisson and discrete distributions.

struct curandStateXORWOW {
  unsigned int d, v[5];
  int boxmuller_flag;
  int boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

struct curandStateMRG32k3a {
  unsigned int s1[3];
  unsigned int s2[3];
  int boxmuller_flag;
  int boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef curandStateMRG32k3a curandStateMRG32k3a_t;

struct curandStatePhilox4_32_10 {
  uint4 ctr;
  uint4 output;
  uint2 key;
  unsigned int STATE;
  int boxmuller_flag;
  int boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

template <typename Word, int Bits> struct __sobol {
  Word i, x, c;
  Word direction_vectors[Bits];
};
struct curandStateSobol32 : __sobol<unsigned int, 32> {};
struct curandStateScrambledSobol32 : __sobol<unsigned int, 32> {};
struct curandStateSobol64 : __sobol<unsigned long long, 64> {};
struct curandStateScrambledSobol64 : __sobol<unsigned long long, 64> {};
typedef curandStateSobol32 curandStateSobol32_t;
typedef curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef curandStateSobol64 curandStateSobol64_t;
typedef curandStateScrambledSobol64 curandStateScrambledSobol64_t;
typedef unsigned int curandDirectionVectors32_t[32];
typedef unsigned long long curandDirectionVectors64_t[64];

template <typename State> __device__ void __no_normal_kept(State* state) {
  state->boxmuller_flag = 0;
  state->boxmuller_flag_double = 0;
  state->boxmuller_extra = 0.0f;
  state->boxmuller_extra_double = 0.0;
}

// ---- XORWOW
__device__ inline void __xorwow_step(unsigned int* v) {
  const unsigned int t = v[0] ^ (v[0] >> 2);
  v[0] = v[1];
  v[1] = v[2];
  v[2] = v[3];
  v[3] = v[4];
  v[4] = (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1));
}
__device__ inline unsigned int curand(curandStateXORWOW_t* state) {
  __xorwow_step(state->v);
  state->d += 362437u;
  return state->v[4] + state->d;
}

// A step of the five words is a linear map over GF(2); its characteristic polynomial m has degree 160. So 2^k steps are
// the polynomial t^(2^k) mod m of the map, and to skip ahead is to square that polynomial and apply it where a bit of
// the distance is set. (The constants: Berlekamp-Massey over the generator's own bits.)
__device__ inline void __xorwow_square(unsigned int* p) {
  unsigned int r[5] = {0u, 0u, 0u, 0u, 0u};
  for (int word = 4; word >= 0; --word) {
    for (int bit = 31; bit >= 0; --bit) {  // Horner: r = r * t mod m, and + p where p has a term
      const unsigned int over = 0u - (r[4] >> 31);
      const unsigned int term = 0u - ((p[word] >> bit) & 1u);
      r[4] = ((r[4] << 1) | (r[3] >> 31)) ^ (over & 0x00000f0eu) ^ (term & p[4]);
      r[3] = ((r[3] << 1) | (r[2] >> 31)) ^ (over & 0x0f3c0035u) ^ (term & p[3]);
      r[2] = ((r[2] << 1) | (r[1] >> 31)) ^ (over & 0x00062121u) ^ (term & p[2]);
      r[1] = ((r[1] << 1) | (r[0] >> 31)) ^ (over & 0x08610030u) ^ (term & p[1]);
      r[0] = (r[0] << 1) ^ (over & 0x00060001u) ^ (term & p[0]);
    }
  }
  for (int word = 0; word < 5; ++word) p[word] = r[word];
}
__device__ inline void __xorwow_apply(const unsigned int* p, unsigned int* v) {
  unsigned int sum[5] = {0u, 0u, 0u, 0u, 0u};
  for (int word = 0; word < 5; ++word) {
    for (int bit = 0; bit < 32; ++bit) {
      const unsigned int term = 0u - ((p[word] >> bit) & 1u);
      for (int k = 0; k < 5; ++k) sum[k] ^= term & v[k];
      __xorwow_step(v);
    }
  }
  for (int k = 0; k < 5; ++k) v[k] = sum[k];
}
__device__ inline void __xorwow_skip(curandStateXORWOW_t* state, unsigned int* p, unsigned long long n) {
  unsigned int v[5];
  for (int k = 0; k < 5; ++k) v[k] = state->v[k];
  while (n != 0ull) {
    if (n & 1ull) __xorwow_apply(p, v);
    n >>= 1;
    if (n != 0ull) __xorwow_square(p);
  }
  for (int k = 0; k < 5; ++k) state->v[k] = v[k];
}
__device__ inline void skipahead(unsigned long long n, curandStateXORWOW_t* state) {
  unsigned int t[5] = {2u, 0u, 0u, 0u, 0u};
  __xorwow_skip(state, t, n);
  state->d += 362437u * (unsigned int)n;
}
// Subsequences are 2^67 steps apart: the Weyl sequence d is where it was.
__device__ inline void skipahead_sequence(unsigned long long n, curandStateXORWOW_t* state) {
  unsigned int t[5] = {0x26294934u, 0x77bbc248u, 0x1a87dad0u, 0x930052d4u, 0x947e6dd2u};
  __xorwow_skip(state, t, n);
}
__device__ inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                   curandStateXORWOW_t* state) {
  const unsigned int low = 1099087573u * ((unsigned int)seed ^ 0xaad26b49u);
  const unsigned int high = 2591861531u * ((unsigned int)(seed >> 32) ^ 0xf7dcefddu);
  state->d = 6615241u + high + low;
  state->v[0] = 123456789u + low;
  state->v[1] = 362436069u ^ low;
  state->v[2] = 521288629u + high;
  state->v[3] = 88675123u ^ high;
  state->v[4] = 5783321u + low;
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
  __no_normal_kept(state);
}

// ---- MRG32k3a
// x[n] = a x[n-2] - b x[n-3] mod m1 and y[n] = c y[n-1] - d y[n-3] mod m2; the number is x - y mod m1, in 1..m1.
__device__ inline unsigned long long __mrg_next(curandStateMRG32k3a_t* state) {
  const unsigned long long m1 = 4294967087ull, m2 = 4294944443ull;
  const unsigned long long x = (1403580ull * state->s1[1] + 810728ull * (m1 - state->s1[0])) % m1;
  const unsigned long long y = (527612ull * state->s2[2] + 1370589ull * (m2 - state->s2[0])) % m2;
  state->s1[0] = state->s1[1];
  state->s1[1] = state->s1[2];
  state->s1[2] = (unsigned int)x;
  state->s2[0] = state->s2[1];
  state->s2[1] = state->s2[2];
  state->s2[2] = (unsigned int)y;
  return x > y ? x - y : x - y + m1;
}
__device__ inline double curand_MRG32k3a(curandStateMRG32k3a_t* state) { return (double)__mrg_next(state); }
__device__ inline unsigned int curand(curandStateMRG32k3a_t* state) {
  return (unsigned int)(curand_MRG32k3a(state) * 1.000000048662);  // m1 values spread over 32 bits
}
__device__ inline void __mrg_times(const unsigned int* a, const unsigned int* b, unsigned int* out,
                                   unsigned long long m) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      unsigned long long sum = 0ull;
      for (int k = 0; k < 3; ++k) sum += (unsigned long long)a[3 * i + k] * b[3 * k + j] % m;
      out[3 * i + j] = (unsigned int)(sum % m);
    }
  }
}
// s = a^n s: a is squared and applied where a bit of n is set.
__device__ inline void __mrg_skip(unsigned int* s, unsigned int* a, unsigned long long n, unsigned long long m) {
  while (n != 0ull) {
    unsigned int next[9];
    if (n & 1ull) {
      for (int i = 0; i < 3; ++i) {
        unsigned long long sum = 0ull;
        for (int k = 0; k < 3; ++k) sum += (unsigned long long)a[3 * i + k] * s[k] % m;
        next[i] = (unsigned int)(sum % m);
      }
      for (int i = 0; i < 3; ++i) s[i] = next[i];
    }
    __mrg_times(a, a, next, m);
    for (int i = 0; i < 9; ++i) a[i] = next[i];
    n >>= 1;
  }
}
__device__ inline void skipahead(unsigned long long n, curandStateMRG32k3a_t* state) {
  unsigned int a[9] = {0u, 1u, 0u, 0u, 0u, 1u, 4294156359u, 1403580u, 0u};
  unsigned int b[9] = {0u, 1u, 0u, 0u, 0u, 1u, 4293573854u, 0u, 527612u};
  __mrg_skip(state->s1, a, n, 4294967087ull);
  __mrg_skip(state->s2, b, n, 4294944443ull);
}
// Subsequences are 2^76 steps apart: the matrices above to that power.
__device__ inline void skipahead_subsequence(unsigned long long n, curandStateMRG32k3a_t* state) {
  unsigned int a[9] = {82758667u, 1871391091u, 4127413238u, 3672831523u, 69195019u,
                       1871391091u, 3672091415u, 3528743235u, 69195019u};
  unsigned int b[9] = {1511326704u, 3759209742u, 1610795712u, 4292754251u, 1511326704u,
                       3889917532u, 3859662829u, 4292754251u, 3708466080u};
  __mrg_skip(state->s1, a, n, 4294967087ull);
  __mrg_skip(state->s2, b, n, 4294944443ull);
}
__device__ inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                   curandStateMRG32k3a_t* state) {
  unsigned long long x = 1ull, y = 1ull;
  if (seed != 0ull) {
    x = (unsigned int)seed ^ 0x55555555u;
    y = (unsigned int)(seed >> 32) ^ 0xaaaaaaaau;
  }
  state->s1[0] = (unsigned int)(x * 12345ull % 4294967087ull);
  state->s1[1] = (unsigned int)(y * 12345ull % 4294967087ull);
  state->s1[2] = (unsigned int)(x * 12345ull % 4294967087ull);
  state->s2[0] = (unsigned int)(y * 12345ull % 4294944443ull);
  state->s2[1] = (unsigned int)(x * 12345ull % 4294944443ull);
  state->s2[2] = (unsigned int)(y * 12345ull % 4294944443ull);
  skipahead_subsequence(subsequence, state);
  skipahead(offset, state);
  __no_normal_kept(state);
}

// ---- Philox4x32-10
__device__ inline uint4 __philox_round(uint4 c, uint2 k) {
  return make_uint4(__umulhi(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z,
                    __umulhi(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
}
__device__ inline uint4 curand_Philox4x32_10(uint4 c, uint2 k) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    c = __philox_round(c, k);
    k.x += 0x9e3779b9u;
    k.y += 0xbb67ae85u;
  }
  return c;
}
// The counter's low half is the place in a subsequence, the high half the subsequence.
__device__ inline void __philox_advance(curandStatePhilox4_32_10_t* state, unsigned long long n) {
  const unsigned long long low = ((unsigned long long)state->ctr.y << 32) | state->ctr.x;
  const unsigned long long next = low + n;
  state->ctr.x = (unsigned int)next;
  state->ctr.y = (unsigned int)(next >> 32);
  if (next < low) {
    state->ctr.z += 1u;
    if (state->ctr.z == 0u) state->ctr.w += 1u;
  }
}
__device__ inline unsigned int __lane(uint4 v, unsigned int i) {
  return i == 0u ? v.x : i == 1u ? v.y : i == 2u ? v.z : v.w;
}
__device__ inline unsigned int curand(curandStatePhilox4_32_10_t* state) {
  const unsigned int number = __lane(state->output, state->STATE);
  state->STATE += 1u;
  if (state->STATE == 4u) {
    __philox_advance(state, 1ull);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
    state->STATE = 0u;
  }
  return number;
}
__device__ inline uint4 curand4(curandStatePhilox4_32_10_t* state) {
  const uint4 a = state->output;
  const unsigned int at = state->STATE;
  __philox_advance(state, 1ull);
  const uint4 b = curand_Philox4x32_10(state->ctr, state->key);
  state->output = b;
  return make_uint4(__lane(a, at), at < 3u ? __lane(a, at + 1u) : b.x,
                    at < 2u ? __lane(a, at + 2u) : __lane(b, at - 2u), at < 1u ? a.w : __lane(b, at - 1u));
}
__device__ inline void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  const unsigned long long from = state->STATE + (n & 3ull);
  state->STATE = (unsigned int)(from & 3ull);
  __philox_advance(state, n / 4ull + from / 4ull);
  state->output = curand_Philox4x32_10(state->ctr, state->key);
}
__device__ inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  const unsigned long long next = (((unsigned long long)state->ctr.w << 32) | state->ctr.z) + n;
  state->ctr.z = (unsigned int)next;
  state->ctr.w = (unsigned int)(next >> 32);
  state->output = curand_Philox4x32_10(state->ctr, state->key);
}
__device__ inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                                   curandStatePhilox4_32_10_t* state) {
  state->ctr = make_uint4(0u, 0u, 0u, 0u);
  state->key = make_uint2((unsigned int)seed, (unsigned int)(seed >> 32));
  state->STATE = 0u;
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
  __no_normal_kept(state);
}

// ---- Sobol' sequences: number i is the sum (xor) of the direction vectors that i's Gray code names
template <typename Word, int Bits> __device__ void __sobol_skip(Word n, __sobol<Word, Bits>* state) {
  state->i += n;
  const Word gray = state->i ^ (state->i >> 1);
  Word x = state->c;
  for (int k = 0; k < Bits; ++k) {
    if ((gray >> k) & 1u) x ^= state->direction_vectors[k];
  }
  state->x = x;
}
template <typename Word, int Bits>
__device__ void __sobol_init(const Word* vectors, Word scramble, Word offset, __sobol<Word, Bits>* state) {
  state->i = 0;
  state->c = scramble;
  for (int k = 0; k < Bits; ++k) state->direction_vectors[k] = vectors[k];
  __sobol_skip<Word, Bits>(offset, state);
}
template <typename Word, int Bits> __device__ Word __sobol_next(__sobol<Word, Bits>* state) {
  const Word number = state->x;
  const int zeros = __ffsll(~(unsigned long long)state->i) - 1;  // ones at the end of i
  state->x ^= state->direction_vectors[zeros < 0 || zeros >= Bits ? Bits - 1 : zeros];
  state->i += 1;
  return number;
}
#define KTC_SOBOL(State, Word, Bits)                                                                            \
  __device__ inline Word curand(State* state) { return __sobol_next<Word, Bits>(state); }                       \
  __device__ inline void skipahead(Word n, State* state) { __sobol_skip<Word, Bits>(n, state); }
KTC_SOBOL(curandStateSobol32_t, unsigned int, 32)
KTC_SOBOL(curandStateScrambledSobol32_t, unsigned int, 32)
KTC_SOBOL(curandStateSobol64_t, unsigned long long, 64)
KTC_SOBOL(curandStateScrambledSobol64_t, unsigned long long, 64)
__device__ inline void curand_init(unsigned int* vectors, unsigned int offset, curandStateSobol32_t* state) {
  __sobol_init<unsigned int, 32>(vectors, 0u, offset, state);
}
__device__ inline void curand_init(unsigned int* vectors, unsigned int scramble, unsigned int offset,
                                   curandStateScrambledSobol32_t* state) {
  __sobol_init<unsigned int, 32>(vectors, scramble, offset, state);
}
__device__ inline void curand_init(unsigned long long* vectors, unsigned long long offset,
                                   curandStateSobol64_t* state) {
  __sobol_init<unsigned long long, 64>(vectors, 0ull, offset, state);
}
__device__ inline void curand_init(unsigned long long* vectors, unsigned long long scramble,
                                   unsigned long long offset, curandStateScrambledSobol64_t* state) {
  __sobol_init<unsigned long long, 64>(vectors, scramble, offset, state);
}

// ---- uniform numbers, in (0, 1]
__device__ inline float _curand_uniform(unsigned int x) { return x * 0x1p-32f + 0x1p-33f; }
__device__ inline float _curand_uniform(unsigned long long x) {
  return (unsigned int)(x >> 32) * 0x1p-32f + 0x1p-33f;
}
__device__ inline double _curand_uniform_double(unsigned int x) { return x * 0x1p-32 + 0x1p-32; }
__device__ inline double _curand_uniform_double(unsigned long long x) { return (x >> 11) * 0x1p-53 + 0x1p-54; }
__device__ inline double __uniform_53(unsigned int x, unsigned int y) {
  return ((unsigned long long)x ^ ((unsigned long long)y << 21)) * 0x1p-53 + 0x1p-54;
}
template <typename State> __device__ float curand_uniform(State* state) { return _curand_uniform(curand(state)); }
template <typename State> __device__ double curand_uniform_double(State* state) {
  return _curand_uniform_double(curand(state));
}
__device__ inline double curand_uniform_double(curandStateXORWOW_t* state) {
  const unsigned int x = curand(state);
  const unsigned int y = curand(state);
  return __uniform_53(x, y);
}
__device__ inline float curand_uniform(curandStateMRG32k3a_t* state) {
  return (float)(curand_MRG32k3a(state) * 2.3283065498378288e-10);
}
__device__ inline double curand_uniform_double(curandStateMRG32k3a_t* state) {
  return curand_MRG32k3a(state) * 2.3283065498378288e-10;
}
__device__ inline float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return make_float4(_curand_uniform(x.x), _curand_uniform(x.y), _curand_uniform(x.z), _curand_uniform(x.w));
}
__device__ inline double2 curand_uniform2_double(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return make_double2(__uniform_53(x.x, x.y), __uniform_53(x.z, x.w));
}
__device__ inline double4 curand_uniform4_double(curandStatePhilox4_32_10_t* state) {
  const double2 a = curand_uniform2_double(state);
  const double2 b = curand_uniform2_double(state);
  return make_double4(a.x, a.y, b.x, b.y);
}

// ---- normal numbers, two at a time (Box and Muller); the single ones keep the second for the next call
__device__ inline float2 __box_muller(unsigned int x, unsigned int y) {
  const float u = x * 0x1p-32f + 0x1p-33f;
  const float v = y * (0x1p-32f * 6.2831855f) + (0x1p-32f * 6.2831855f) / 2;
  const float s = sqrtf(-2.0f * logf(u));
  float sine, cosine;
  __sincosf(v, &sine, &cosine);
  return make_float2(sine * s, cosine * s);
}
__device__ inline double2 __box_muller(unsigned int x0, unsigned int x1, unsigned int y0, unsigned int y1) {
  const unsigned long long x = (unsigned long long)x0 ^ ((unsigned long long)x1 << 21);
  const unsigned long long y = (unsigned long long)y0 ^ ((unsigned long long)y1 << 21);
  const double s = sqrt(-2.0 * log(x * 0x1p-53 + 0x1p-54));
  double sine, cosine;
  sincospi(y * 0x1p-52 + 0x1p-53, &sine, &cosine);
  return make_double2(sine * s, cosine * s);
}
template <typename State> __device__ float2 curand_normal2(State* state) {
  const unsigned int x = curand(state);
  const unsigned int y = curand(state);
  return __box_muller(x, y);
}
__device__ inline float2 curand_normal2(curandStateMRG32k3a_t* state) {
  const float u = curand_uniform(state);
  const float v = curand_uniform(state) * 6.2831855f;
  const float s = sqrtf(-2.0f * logf(u));
  float sine, cosine;
  __sincosf(v, &sine, &cosine);
  return make_float2(sine * s, cosine * s);
}
__device__ inline float4 curand_normal4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  const float2 a = __box_muller(x.x, x.y);
  const float2 b = __box_muller(x.z, x.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
template <typename State> __device__ double2 curand_normal2_double(State* state) {
  const unsigned int x0 = curand(state);
  const unsigned int x1 = curand(state);
  const unsigned int y0 = curand(state);
  const unsigned int y1 = curand(state);
  return __box_muller(x0, x1, y0, y1);
}
__device__ inline double2 curand_normal2_double(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return __box_muller(x.x, x.y, x.z, x.w);
}
__device__ inline double2 curand_normal2_double(curandStateMRG32k3a_t* state) {
  const double u = curand_uniform_double(state);
  const double v = curand_uniform_double(state) * 2.0;
  const double s = sqrt(-2.0 * log(u));
  double sine, cosine;
  sincospi(v, &sine, &cosine);
  return make_double2(sine * s, cosine * s);
}
__device__ inline double4 curand_normal4_double(curandStatePhilox4_32_10_t* state) {
  const double2 a = curand_normal2_double(state);
  const double2 b = curand_normal2_double(state);
  return make_double4(a.x, a.y, b.x, b.y);
}
template <typename State> __device__ float curand_normal(State* state) {
  if (state->boxmuller_flag == 1) {
    state->boxmuller_flag = 0;
    return state->boxmuller_extra;
  }
  const float2 pair = curand_normal2(state);
  state->boxmuller_extra = pair.y;
  state->boxmuller_flag = 1;
  return pair.x;
}
template <typename State> __device__ double curand_normal_double(State* state) {
  if (state->boxmuller_flag_double == 1) {
    state->boxmuller_flag_double = 0;
    return state->boxmuller_extra_double;
  }
  const double2 pair = curand_normal2_double(state);
  state->boxmuller_extra_double = pair.y;
  state->boxmuller_flag_double = 1;
  return pair.x;
}

// ---- log-normal numbers
template <typename State> __device__ float2 curand_log_normal2(State* state, float mean, float stddev) {
  const float2 pair = curand_normal2(state);
  return make_float2(expf(mean + (stddev * pair.x)), expf(mean + (stddev * pair.y)));
}
template <typename State> __device__ float4 curand_log_normal4(State* state, float mean, float stddev) {
  const float4 v = curand_normal4(state);
  return make_float4(expf(mean + (stddev * v.x)), expf(mean + (stddev * v.y)), expf(mean + (stddev * v.z)),
                     expf(mean + (stddev * v.w)));
}
template <typename State> __device__ double2 curand_log_normal2_double(State* state, double mean, double stddev) {
  const double2 pair = curand_normal2_double(state);
  return make_double2(exp(mean + (stddev * pair.x)), exp(mean + (stddev * pair.y)));
}
template <typename State> __device__ float curand_log_normal(State* state, float mean, float stddev) {
  if (state->boxmuller_flag == 2) {
    state->boxmuller_flag = 0;
    return state->boxmuller_extra;
  }
  const float2 pair = curand_log_normal2(state, mean, stddev);
  state->boxmuller_extra = pair.y;
  state->boxmuller_flag = 2;
  return pair.x;
}
template <typename State> __device__ double curand_log_normal_double(State* state, double mean, double stddev) {
  if (state->boxmuller_flag_double == 2) {
    state->boxmuller_flag_double = 0;
    return state->boxmuller_extra_double;
  }
  const double2 pair = curand_log_normal2_double(state, mean, stddev);
  state->boxmuller_extra_double = pair.y;
  state->boxmuller_flag_double = 2;
  return pair.x;
}
