// Complex numbers of CUDA's C headers (cuComplex.h, cufft.h): vectors of two, with the headers' own scaled division and
// modulus, which decide how results round.
typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;
typedef float2 cufftComplex;
typedef double2 cufftDoubleComplex;
typedef float cufftReal;
typedef double cufftDoubleReal;
__device__ inline float2 make_cuComplex(float re, float im) { return make_float2(re, im); }
__device__ inline float2 cuComplexDoubleToFloat(double2 x) { return make_float2((float)x.x, (float)x.y); }
__device__ inline double2 cuComplexFloatToDouble(float2 x) { return make_double2((double)x.x, (double)x.y); }

// ---- Float
__device__ inline float2 make_cuFloatComplex(float re, float im) { return make_float2(re, im); }
__device__ inline float cuCrealf(float2 x) { return x.x; }
__device__ inline float cuCimagf(float2 x) { return x.y; }
__device__ inline float2 cuConjf(float2 x) { return make_float2(x.x, -x.y); }
__device__ inline float2 cuCaddf(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 cuCsubf(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ inline float2 cuCmulf(float2 a, float2 b) {
  return make_float2((a.x * b.x) - (a.y * b.y), (a.x * b.y) + (a.y * b.x));
}
__device__ inline float2 cuCdivf(float2 a, float2 b) {
  float s = fabsf(b.x) + fabsf(b.y);
  float over = 1.0f / s;
  const float ar = a.x * over;
  const float ai = a.y * over;
  const float br = b.x * over;
  const float bi = b.y * over;
  s = (br * br) + (bi * bi);
  over = 1.0f / s;
  return make_float2(((ar * br) + (ai * bi)) * over, ((ai * br) - (ar * bi)) * over);
}
__device__ inline float cuCabsf(float2 x) {
  const float a = fabsf(x.x);
  const float b = fabsf(x.y);
  const float large = a > b ? a : b;
  const float small = a > b ? b : a;
  float ratio = small / large;
  ratio = 1.0f + ratio * ratio;
  ratio = large * sqrtf(ratio);
  if (large == 0.0f || large > 3.402823466e38f || small > 3.402823466e38f) ratio = large + small;
  return ratio;
}
__device__ inline float2 cuCfmaf(float2 a, float2 b, float2 c) {
  const float re = (a.x * b.x) + c.x;
  const float im = (a.x * b.y) + c.y;
  return make_float2(re - (a.y * b.y), (a.y * b.x) + im);
}

// ---- Double
__device__ inline double2 make_cuDoubleComplex(double re, double im) { return make_double2(re, im); }
__device__ inline double cuCreal(double2 x) { return x.x; }
__device__ inline double cuCimag(double2 x) { return x.y; }
__device__ inline double2 cuConj(double2 x) { return make_double2(x.x, -x.y); }
__device__ inline double2 cuCadd(double2 a, double2 b) { return make_double2(a.x + b.x, a.y + b.y); }
__device__ inline double2 cuCsub(double2 a, double2 b) { return make_double2(a.x - b.x, a.y - b.y); }
__device__ inline double2 cuCmul(double2 a, double2 b) {
  return make_double2((a.x * b.x) - (a.y * b.y), (a.x * b.y) + (a.y * b.x));
}
__device__ inline double2 cuCdiv(double2 a, double2 b) {
  double s = fabs(b.x) + fabs(b.y);
  double over = 1.0 / s;
  const double ar = a.x * over;
  const double ai = a.y * over;
  const double br = b.x * over;
  const double bi = b.y * over;
  s = (br * br) + (bi * bi);
  over = 1.0 / s;
  return make_double2(((ar * br) + (ai * bi)) * over, ((ai * br) - (ar * bi)) * over);
}
__device__ inline double cuCabs(double2 x) {
  const double a = fabs(x.x);
  const double b = fabs(x.y);
  const double large = a > b ? a : b;
  const double small = a > b ? b : a;
  double ratio = small / large;
  ratio = 1.0 + ratio * ratio;
  ratio = large * sqrt(ratio);
  if (large == 0.0 || large > 1.79769313486231570e+308 || small > 1.79769313486231570e+308) ratio = large + small;
  return ratio;
}
__device__ inline double2 cuCfma(double2 a, double2 b, double2 c) {
  const double re = (a.x * b.x) + c.x;
  const double im = (a.x * b.y) + c.y;
  return make_double2(re - (a.y * b.y), (a.y * b.x) + im);
}
