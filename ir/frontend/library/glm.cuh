// What kernels use of GLM (OpenGL Mathematics): vectors, matrices by columns, quaternions, and the functions on them,
// after its documentation. Operations are spelled out by component, which leaves plain numbers where an index is known.
namespace glm {
typedef int length_t;
enum qualifier { packed_highp, packed_mediump, packed_lowp, highp = packed_highp, mediump = packed_mediump,
                 lowp = packed_lowp, defaultp = packed_highp };

template <int N, typename T, qualifier Q = defaultp> struct vec;
template <int C, int R, typename T, qualifier Q = defaultp> struct mat;

// ---- Vectors
template <typename T, qualifier Q> struct vec<1, T, Q> {
  typedef T value_type;
  T x;
  vec() = default;
  __host__ __device__ explicit vec(T s) : x(s) {}
  __host__ __device__ static constexpr int length() { return 1; }
  __host__ __device__ T& operator[](int i) { return x; }
  __host__ __device__ const T& operator[](int i) const { return x; }
};

template <typename T, qualifier Q> struct vec<2, T, Q> {
  typedef T value_type;
  T x, y;
  vec() = default;
  __host__ __device__ explicit vec(T s) : x(s), y(s) {}
  template <typename A, typename B> __host__ __device__ vec(A a, B b) : x(T(a)), y(T(b)) {}
  template <typename U> __host__ __device__ vec(const vec<2, U, Q>& v) : x(T(v.x)), y(T(v.y)) {}
  template <typename U> __host__ __device__ explicit vec(const vec<3, U, Q>& v) : x(T(v.x)), y(T(v.y)) {}
  template <typename U> __host__ __device__ explicit vec(const vec<4, U, Q>& v) : x(T(v.x)), y(T(v.y)) {}
  __host__ __device__ static constexpr int length() { return 2; }
  __host__ __device__ T& operator[](int i) { return (&x)[i]; }
  __host__ __device__ const T& operator[](int i) const { return (&x)[i]; }
};

template <typename T, qualifier Q> struct vec<3, T, Q> {
  typedef T value_type;
  T x, y, z;
  vec() = default;
  __host__ __device__ explicit vec(T s) : x(s), y(s), z(s) {}
  template <typename A, typename B, typename C> __host__ __device__ vec(A a, B b, C c) : x(T(a)), y(T(b)), z(T(c)) {}
  template <typename A, typename B> __host__ __device__ vec(const vec<2, A, Q>& v, B c) : x(T(v.x)), y(T(v.y)), z(T(c)) {}
  template <typename A, typename B> __host__ __device__ vec(A a, const vec<2, B, Q>& v) : x(T(a)), y(T(v.x)), z(T(v.y)) {}
  template <typename U> __host__ __device__ vec(const vec<3, U, Q>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  template <typename U> __host__ __device__ explicit vec(const vec<4, U, Q>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  __host__ __device__ static constexpr int length() { return 3; }
  __host__ __device__ T& operator[](int i) { return (&x)[i]; }
  __host__ __device__ const T& operator[](int i) const { return (&x)[i]; }
};

template <typename T, qualifier Q> struct vec<4, T, Q> {
  typedef T value_type;
  T x, y, z, w;
  vec() = default;
  __host__ __device__ explicit vec(T s) : x(s), y(s), z(s), w(s) {}
  template <typename A, typename B, typename C, typename D>
  __host__ __device__ vec(A a, B b, C c, D d) : x(T(a)), y(T(b)), z(T(c)), w(T(d)) {}
  template <typename A, typename B>
  __host__ __device__ vec(const vec<3, A, Q>& v, B d) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(d)) {}
  template <typename A, typename B>
  __host__ __device__ vec(A a, const vec<3, B, Q>& v) : x(T(a)), y(T(v.x)), z(T(v.y)), w(T(v.z)) {}
  template <typename A, typename B>
  __host__ __device__ vec(const vec<2, A, Q>& v, const vec<2, B, Q>& u) : x(T(v.x)), y(T(v.y)), z(T(u.x)), w(T(u.y)) {}
  template <typename A, typename B, typename C>
  __host__ __device__ vec(const vec<2, A, Q>& v, B c, C d) : x(T(v.x)), y(T(v.y)), z(T(c)), w(T(d)) {}
  template <typename U> __host__ __device__ vec(const vec<4, U, Q>& v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  __host__ __device__ static constexpr int length() { return 4; }
  __host__ __device__ T& operator[](int i) { return (&x)[i]; }
  __host__ __device__ const T& operator[](int i) const { return (&x)[i]; }
};

// KTC_GLM_MAP##N(F) is F of each component's name, F a macro.
#define KTC_GLM_MAP1(F) F(x)
#define KTC_GLM_MAP2(F) F(x), F(y)
#define KTC_GLM_MAP3(F) F(x), F(y), F(z)
#define KTC_GLM_MAP4(F) F(x), F(y), F(z), F(w)
#define KTC_GLM_FN template <typename T, qualifier Q> __host__ __device__ inline

#define KTC_GLM_PLUS(c) a.c + b.c
#define KTC_GLM_MINUS(c) a.c - b.c
#define KTC_GLM_TIMES(c) a.c * b.c
#define KTC_GLM_OVER(c) a.c / b.c
#define KTC_GLM_PLUS_S(c) a.c + b
#define KTC_GLM_MINUS_S(c) a.c - b
#define KTC_GLM_TIMES_S(c) a.c * b
#define KTC_GLM_OVER_S(c) a.c / b
#define KTC_GLM_S_PLUS(c) a + b.c
#define KTC_GLM_S_MINUS(c) a - b.c
#define KTC_GLM_S_TIMES(c) a * b.c
#define KTC_GLM_S_OVER(c) a / b.c
#define KTC_GLM_NEGATED(c) -a.c
#define KTC_GLM_OPERATOR(N, op, NAME)                                                                                  \
  KTC_GLM_FN vec<N, T, Q> operator op(const vec<N, T, Q>& a, const vec<N, T, Q>& b) {                                  \
    return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_##NAME));                                                               \
  }                                                                                                                    \
  KTC_GLM_FN vec<N, T, Q> operator op(const vec<N, T, Q>& a, T b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_##NAME##_S)); } \
  KTC_GLM_FN vec<N, T, Q> operator op(T a, const vec<N, T, Q>& b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_S_##NAME)); } \
  KTC_GLM_FN vec<N, T, Q>& operator op##=(vec<N, T, Q>& a, const vec<N, T, Q>& b) { return a = a op b; }               \
  KTC_GLM_FN vec<N, T, Q>& operator op##=(vec<N, T, Q>& a, T b) { return a = a op b; }
#define KTC_GLM_OPERATORS(N)                                                                                           \
  KTC_GLM_OPERATOR(N, +, PLUS)                                                                                         \
  KTC_GLM_OPERATOR(N, -, MINUS)                                                                                        \
  KTC_GLM_OPERATOR(N, *, TIMES)                                                                                        \
  KTC_GLM_OPERATOR(N, /, OVER)                                                                                         \
  KTC_GLM_FN vec<N, T, Q> operator-(const vec<N, T, Q>& a) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_NEGATED)); }
KTC_GLM_OPERATORS(1)
KTC_GLM_OPERATORS(2)
KTC_GLM_OPERATORS(3)
KTC_GLM_OPERATORS(4)
KTC_GLM_FN bool operator==(const vec<2, T, Q>& a, const vec<2, T, Q>& b) { return a.x == b.x && a.y == b.y; }
KTC_GLM_FN bool operator==(const vec<3, T, Q>& a, const vec<3, T, Q>& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }
KTC_GLM_FN bool operator==(const vec<4, T, Q>& a, const vec<4, T, Q>& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
template <int N, typename T, qualifier Q> __host__ __device__ inline bool operator!=(const vec<N, T, Q>& a, const vec<N, T, Q>& b) {
  return !(a == b);
}

KTC_GLM_FN T dot(const vec<1, T, Q>& a, const vec<1, T, Q>& b) { return a.x * b.x; }
KTC_GLM_FN T dot(const vec<2, T, Q>& a, const vec<2, T, Q>& b) { return a.x * b.x + a.y * b.y; }
KTC_GLM_FN T dot(const vec<3, T, Q>& a, const vec<3, T, Q>& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
KTC_GLM_FN T dot(const vec<4, T, Q>& a, const vec<4, T, Q>& b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); }
KTC_GLM_FN vec<3, T, Q> cross(const vec<3, T, Q>& a, const vec<3, T, Q>& b) {
  return vec<3, T, Q>(a.y * b.z - b.y * a.z, a.z * b.x - b.z * a.x, a.x * b.y - b.x * a.y);
}

// ---- Functions of numbers, and of vectors by component
#define KTC_GLM_NUMBER template <typename T> __host__ __device__ inline
template <typename T> __host__ __device__ constexpr T pi() { return T(3.14159265358979323846264338327950288); }
template <typename T> struct __epsilon;
template <> struct __epsilon<float> { __host__ __device__ static constexpr float of() { return 1.1920928955078125e-7f; } };
template <> struct __epsilon<double> { __host__ __device__ static constexpr double of() { return 2.220446049250313e-16; } };
template <typename T> __host__ __device__ constexpr T epsilon() { return __epsilon<T>::of(); }
KTC_GLM_NUMBER T min(T a, T b) { return (b < a) ? b : a; }
KTC_GLM_NUMBER T max(T a, T b) { return (a < b) ? b : a; }
KTC_GLM_NUMBER T abs(T a) { return a >= T(0) ? a : -a; }
KTC_GLM_NUMBER T sign(T a) { return T((T(0) < a) - (a < T(0))); }
KTC_GLM_NUMBER T fract(T a) { return a - ::floor(a); }
KTC_GLM_NUMBER T clamp(T a, T low, T high) { return min(max(a, low), high); }
KTC_GLM_NUMBER T mix(T a, T b, T at) { return a * (T(1) - at) + b * at; }
KTC_GLM_NUMBER T radians(T degrees) { return degrees * T(0.01745329251994329576923690768489); }
KTC_GLM_NUMBER T degrees(T radians) { return radians * T(57.295779513082320876798154814105); }
KTC_GLM_NUMBER T inversesqrt(T a) { return T(1) / ::sqrt(a); }
KTC_GLM_NUMBER T atan(T y, T x) { return ::atan2(y, x); }
KTC_GLM_NUMBER T pow(T a, T b) { return ::pow(a, b); }
#define KTC_GLM_BUILT_IN(f) KTC_GLM_NUMBER T f(T a) { return ::f(a); }
KTC_GLM_BUILT_IN(sqrt)
KTC_GLM_BUILT_IN(exp)
KTC_GLM_BUILT_IN(exp2)
KTC_GLM_BUILT_IN(log)
KTC_GLM_BUILT_IN(log2)
KTC_GLM_BUILT_IN(sin)
KTC_GLM_BUILT_IN(cos)
KTC_GLM_BUILT_IN(tan)
KTC_GLM_BUILT_IN(asin)
KTC_GLM_BUILT_IN(acos)
KTC_GLM_BUILT_IN(atan)
KTC_GLM_BUILT_IN(sinh)
KTC_GLM_BUILT_IN(cosh)
KTC_GLM_BUILT_IN(tanh)
KTC_GLM_BUILT_IN(floor)
KTC_GLM_BUILT_IN(ceil)
KTC_GLM_BUILT_IN(round)
KTC_GLM_BUILT_IN(trunc)

#define KTC_GLM_OF(f, N, F) KTC_GLM_FN vec<N, T, Q> f(const vec<N, T, Q>& a) { return vec<N, T, Q>(KTC_GLM_MAP##N(F)); }
#define KTC_GLM_BY_COMPONENT(f, F) KTC_GLM_OF(f, 2, F) KTC_GLM_OF(f, 3, F) KTC_GLM_OF(f, 4, F)
#define KTC_GLM_ABS(c) abs(a.c)
#define KTC_GLM_SIGN(c) sign(a.c)
#define KTC_GLM_FRACT(c) fract(a.c)
#define KTC_GLM_SQRT(c) ::sqrt(a.c)
#define KTC_GLM_EXP(c) ::exp(a.c)
#define KTC_GLM_LOG(c) ::log(a.c)
#define KTC_GLM_SIN(c) ::sin(a.c)
#define KTC_GLM_COS(c) ::cos(a.c)
#define KTC_GLM_FLOOR(c) ::floor(a.c)
#define KTC_GLM_CEIL(c) ::ceil(a.c)
#define KTC_GLM_ROUND(c) ::round(a.c)
KTC_GLM_BY_COMPONENT(abs, KTC_GLM_ABS)
KTC_GLM_BY_COMPONENT(sign, KTC_GLM_SIGN)
KTC_GLM_BY_COMPONENT(fract, KTC_GLM_FRACT)
KTC_GLM_BY_COMPONENT(sqrt, KTC_GLM_SQRT)
KTC_GLM_BY_COMPONENT(exp, KTC_GLM_EXP)
KTC_GLM_BY_COMPONENT(log, KTC_GLM_LOG)
KTC_GLM_BY_COMPONENT(sin, KTC_GLM_SIN)
KTC_GLM_BY_COMPONENT(cos, KTC_GLM_COS)
KTC_GLM_BY_COMPONENT(floor, KTC_GLM_FLOOR)
KTC_GLM_BY_COMPONENT(ceil, KTC_GLM_CEIL)
KTC_GLM_BY_COMPONENT(round, KTC_GLM_ROUND)

#define KTC_GLM_LEAST(c) min(a.c, b.c)
#define KTC_GLM_LEAST_S(c) min(a.c, b)
#define KTC_GLM_MOST(c) max(a.c, b.c)
#define KTC_GLM_MOST_S(c) max(a.c, b)
#define KTC_GLM_EXTREMES(N)                                                                                            \
  KTC_GLM_FN vec<N, T, Q> min(const vec<N, T, Q>& a, const vec<N, T, Q>& b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_LEAST)); } \
  KTC_GLM_FN vec<N, T, Q> min(const vec<N, T, Q>& a, T b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_LEAST_S)); }    \
  KTC_GLM_FN vec<N, T, Q> max(const vec<N, T, Q>& a, const vec<N, T, Q>& b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_MOST)); } \
  KTC_GLM_FN vec<N, T, Q> max(const vec<N, T, Q>& a, T b) { return vec<N, T, Q>(KTC_GLM_MAP##N(KTC_GLM_MOST_S)); }     \
  KTC_GLM_FN vec<N, T, Q> clamp(const vec<N, T, Q>& a, T low, T high) { return min(max(a, low), high); }               \
  KTC_GLM_FN vec<N, T, Q> clamp(const vec<N, T, Q>& a, const vec<N, T, Q>& low, const vec<N, T, Q>& high) {            \
    return min(max(a, low), high);                                                                                     \
  }                                                                                                                    \
  KTC_GLM_FN vec<N, T, Q> mix(const vec<N, T, Q>& a, const vec<N, T, Q>& b, T at) { return a * (T(1) - at) + b * at; } \
  KTC_GLM_FN T length(const vec<N, T, Q>& a) { return ::sqrt(dot(a, a)); }                                             \
  KTC_GLM_FN T distance(const vec<N, T, Q>& a, const vec<N, T, Q>& b) { return length(b - a); }                        \
  KTC_GLM_FN vec<N, T, Q> normalize(const vec<N, T, Q>& a) { return a * inversesqrt(dot(a, a)); }                      \
  KTC_GLM_FN vec<N, T, Q> reflect(const vec<N, T, Q>& a, const vec<N, T, Q>& normal) {                                 \
    return a - normal * dot(normal, a) * T(2);                                                                         \
  }
KTC_GLM_EXTREMES(2)
KTC_GLM_EXTREMES(3)
KTC_GLM_EXTREMES(4)

// ---- From and to memory
KTC_GLM_NUMBER vec<2, T> make_vec2(const T* from) { return vec<2, T>(from[0], from[1]); }
KTC_GLM_NUMBER vec<3, T> make_vec3(const T* from) { return vec<3, T>(from[0], from[1], from[2]); }
KTC_GLM_NUMBER vec<4, T> make_vec4(const T* from) { return vec<4, T>(from[0], from[1], from[2], from[3]); }
template <int N, typename T, qualifier Q> __host__ __device__ inline const T* value_ptr(const vec<N, T, Q>& v) { return &v.x; }
template <int N, typename T, qualifier Q> __host__ __device__ inline T* value_ptr(vec<N, T, Q>& v) { return &v.x; }

// ---- Matrices, by columns: a product with a vector is the sum of the columns, each times its number
#define KTC_GLM_MATRIX_HEAD(C)                                                                                         \
  typedef vec<R, T, Q> col_type;                                                                                       \
  typedef vec<C, T, Q> row_type;                                                                                       \
  typedef T value_type;                                                                                                \
  col_type value[C];                                                                                                   \
  mat() = default;                                                                                                     \
  __host__ __device__ static constexpr int length() { return C; }                                                      \
  __host__ __device__ col_type& operator[](int i) { return value[i]; }                                                 \
  __host__ __device__ const col_type& operator[](int i) const { return value[i]; }

template <int R, typename T, qualifier Q> struct mat<2, R, T, Q> {
  KTC_GLM_MATRIX_HEAD(2)
  __host__ __device__ explicit mat(T s) {
    value[0] = value[1] = col_type(T(0));
    value[0].x = value[1].y = s;
  }
  __host__ __device__ mat(const col_type& a, const col_type& b) {
    value[0] = a;
    value[1] = b;
  }
  __host__ __device__ mat(T ax, T ay, T bx, T by) {
    value[0] = col_type(ax, ay);
    value[1] = col_type(bx, by);
  }
  __host__ __device__ mat(T ax, T ay, T az, T bx, T by, T bz) {
    value[0] = col_type(ax, ay, az);
    value[1] = col_type(bx, by, bz);
  }
  template <int D, int S> __host__ __device__ explicit mat(const mat<D, S, T, Q>& m) {
    value[0] = col_type(m.value[0]);
    value[1] = col_type(m.value[1]);
  }
};

template <int R, typename T, qualifier Q> struct mat<3, R, T, Q> {
  KTC_GLM_MATRIX_HEAD(3)
  __host__ __device__ explicit mat(T s) {
    value[0] = value[1] = value[2] = col_type(T(0));
    value[0].x = value[1].y = s;
    if constexpr (R > 2) value[2].z = s;
  }
  __host__ __device__ mat(const col_type& a, const col_type& b, const col_type& c) {
    value[0] = a;
    value[1] = b;
    value[2] = c;
  }
  __host__ __device__ mat(T ax, T ay, T bx, T by, T cx, T cy) {
    value[0] = col_type(ax, ay);
    value[1] = col_type(bx, by);
    value[2] = col_type(cx, cy);
  }
  __host__ __device__ mat(T ax, T ay, T az, T bx, T by, T bz, T cx, T cy, T cz) {
    value[0] = col_type(ax, ay, az);
    value[1] = col_type(bx, by, bz);
    value[2] = col_type(cx, cy, cz);
  }
  template <int D, int S> __host__ __device__ explicit mat(const mat<D, S, T, Q>& m) {
    value[0] = col_type(m.value[0]);
    value[1] = col_type(m.value[1]);
    value[2] = col_type(m.value[2]);
  }
};

template <int R, typename T, qualifier Q> struct mat<4, R, T, Q> {
  KTC_GLM_MATRIX_HEAD(4)
  __host__ __device__ explicit mat(T s) {
    value[0] = value[1] = value[2] = value[3] = col_type(T(0));
    value[0].x = value[1].y = s;
    if constexpr (R > 2) value[2].z = s;
    if constexpr (R > 3) value[3].w = s;
  }
  __host__ __device__ mat(const col_type& a, const col_type& b, const col_type& c, const col_type& d) {
    value[0] = a;
    value[1] = b;
    value[2] = c;
    value[3] = d;
  }
  __host__ __device__ mat(T ax, T ay, T az, T bx, T by, T bz, T cx, T cy, T cz, T dx, T dy, T dz) {
    value[0] = col_type(ax, ay, az);
    value[1] = col_type(bx, by, bz);
    value[2] = col_type(cx, cy, cz);
    value[3] = col_type(dx, dy, dz);
  }
  __host__ __device__ mat(T ax, T ay, T az, T aw, T bx, T by, T bz, T bw, T cx, T cy, T cz, T cw, T dx, T dy, T dz, T dw) {
    value[0] = col_type(ax, ay, az, aw);
    value[1] = col_type(bx, by, bz, bw);
    value[2] = col_type(cx, cy, cz, cw);
    value[3] = col_type(dx, dy, dz, dw);
  }
};

// F(c) of each column's place c, F a macro.
#define KTC_GLM_EACH2(F) F(0), F(1)
#define KTC_GLM_EACH3(F) F(0), F(1), F(2)
#define KTC_GLM_EACH4(F) F(0), F(1), F(2), F(3)
#define KTC_GLM_COLUMN_PLUS(c) a.value[c] + b.value[c]
#define KTC_GLM_COLUMN_MINUS(c) a.value[c] - b.value[c]
#define KTC_GLM_COLUMN_TIMES_S(c) a.value[c] * b
#define KTC_GLM_COLUMN_OVER_S(c) a.value[c] / b
#define KTC_GLM_COLUMN_S_TIMES(c) a * b.value[c]
#define KTC_GLM_COLUMN_NEGATED(c) -a.value[c]
#define KTC_GLM_COLUMN_OF_PRODUCT(c) a * b.value[c]
#define KTC_GLM_DOT_COLUMN(c) dot(a, b.value[c])
#define KTC_GLM_COLUMN_OF_OUTER(c) a * b[c]
#define KTC_GLM_MATRIX_FN template <int R, typename T, qualifier Q> __host__ __device__ inline
#define KTC_GLM_MATRIX_OPERATORS(C, APPLIED)                                                                           \
  KTC_GLM_MATRIX_FN vec<R, T, Q> operator*(const mat<C, R, T, Q>& a, const vec<C, T, Q>& b) { return APPLIED; }        \
  KTC_GLM_MATRIX_FN vec<C, T, Q> operator*(const vec<R, T, Q>& a, const mat<C, R, T, Q>& b) {                          \
    return vec<C, T, Q>(KTC_GLM_EACH##C(KTC_GLM_DOT_COLUMN));                                                          \
  }                                                                                                                    \
  template <int K, int R, typename T, qualifier Q>                                                                     \
  __host__ __device__ inline mat<C, R, T, Q> operator*(const mat<K, R, T, Q>& a, const mat<C, K, T, Q>& b) {           \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_OF_PRODUCT));                                                \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator+(const mat<C, R, T, Q>& a, const mat<C, R, T, Q>& b) {                    \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_PLUS));                                                      \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator-(const mat<C, R, T, Q>& a, const mat<C, R, T, Q>& b) {                    \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_MINUS));                                                     \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator-(const mat<C, R, T, Q>& a) {                                              \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_NEGATED));                                                   \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator*(const mat<C, R, T, Q>& a, T b) {                                         \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_TIMES_S));                                                   \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator*(T a, const mat<C, R, T, Q>& b) {                                         \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_S_TIMES));                                                   \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> operator/(const mat<C, R, T, Q>& a, T b) {                                         \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_OVER_S));                                                    \
  }                                                                                                                    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q>& operator+=(mat<C, R, T, Q>& a, const mat<C, R, T, Q>& b) { return a = a + b; }    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q>& operator-=(mat<C, R, T, Q>& a, const mat<C, R, T, Q>& b) { return a = a - b; }    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q>& operator*=(mat<C, R, T, Q>& a, const mat<C, C, T, Q>& b) { return a = a * b; }    \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q>& operator*=(mat<C, R, T, Q>& a, T b) { return a = a * b; }                         \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q>& operator/=(mat<C, R, T, Q>& a, T b) { return a = a / b; }                         \
  KTC_GLM_MATRIX_FN mat<C, R, T, Q> outerProduct(const vec<R, T, Q>& a, const vec<C, T, Q>& b) {                       \
    return mat<C, R, T, Q>(KTC_GLM_EACH##C(KTC_GLM_COLUMN_OF_OUTER));                                                  \
  }
KTC_GLM_MATRIX_OPERATORS(2, a.value[0] * b.x + a.value[1] * b.y)
KTC_GLM_MATRIX_OPERATORS(3, a.value[0] * b.x + a.value[1] * b.y + a.value[2] * b.z)
KTC_GLM_MATRIX_OPERATORS(4, (a.value[0] * b.x + a.value[1] * b.y) + (a.value[2] * b.z + a.value[3] * b.w))

// ---- Transposes
#define KTC_GLM_ROW2(r) vec<2, T, Q>(m.value[0].r, m.value[1].r)
#define KTC_GLM_ROW3(r) vec<3, T, Q>(m.value[0].r, m.value[1].r, m.value[2].r)
#define KTC_GLM_ROW4(r) vec<4, T, Q>(m.value[0].r, m.value[1].r, m.value[2].r, m.value[3].r)
#define KTC_GLM_ROWS2(ROW) ROW(x), ROW(y)
#define KTC_GLM_ROWS3(ROW) ROW(x), ROW(y), ROW(z)
#define KTC_GLM_ROWS4(ROW) ROW(x), ROW(y), ROW(z), ROW(w)
#define KTC_GLM_TRANSPOSE(C, R) \
  KTC_GLM_FN mat<R, C, T, Q> transpose(const mat<C, R, T, Q>& m) { return mat<R, C, T, Q>(KTC_GLM_ROWS##R(KTC_GLM_ROW##C)); }
KTC_GLM_TRANSPOSE(2, 2)
KTC_GLM_TRANSPOSE(2, 3)
KTC_GLM_TRANSPOSE(2, 4)
KTC_GLM_TRANSPOSE(3, 2)
KTC_GLM_TRANSPOSE(3, 3)
KTC_GLM_TRANSPOSE(3, 4)
KTC_GLM_TRANSPOSE(4, 2)
KTC_GLM_TRANSPOSE(4, 3)
KTC_GLM_TRANSPOSE(4, 4)

// ---- Determinants and inverses, by cofactors
KTC_GLM_FN T determinant(const mat<2, 2, T, Q>& m) { return m[0].x * m[1].y - m[1].x * m[0].y; }
KTC_GLM_FN T determinant(const mat<3, 3, T, Q>& m) {
  return m[0].x * (m[1].y * m[2].z - m[2].y * m[1].z) - m[1].x * (m[0].y * m[2].z - m[2].y * m[0].z) +
         m[2].x * (m[0].y * m[1].z - m[1].y * m[0].z);
}
KTC_GLM_FN mat<2, 2, T, Q> inverse(const mat<2, 2, T, Q>& m) {
  const T over = T(1) / determinant(m);
  return mat<2, 2, T, Q>(m[1].y * over, -m[0].y * over, -m[1].x * over, m[0].x * over);
}
KTC_GLM_FN mat<3, 3, T, Q> inverse(const mat<3, 3, T, Q>& m) {
  const T over = T(1) / determinant(m);
  return mat<3, 3, T, Q>(
      (m[1].y * m[2].z - m[2].y * m[1].z) * over, -(m[0].y * m[2].z - m[2].y * m[0].z) * over,
      (m[0].y * m[1].z - m[1].y * m[0].z) * over, -(m[1].x * m[2].z - m[2].x * m[1].z) * over,
      (m[0].x * m[2].z - m[2].x * m[0].z) * over, -(m[0].x * m[1].z - m[1].x * m[0].z) * over,
      (m[1].x * m[2].y - m[2].x * m[1].y) * over, -(m[0].x * m[2].y - m[2].x * m[0].y) * over,
      (m[0].x * m[1].y - m[1].x * m[0].y) * over);
}

KTC_GLM_FN mat<2, 2, T, Q> diagonal2x2(const vec<2, T, Q>& v) { return mat<2, 2, T, Q>(v.x, T(0), T(0), v.y); }
KTC_GLM_FN mat<3, 3, T, Q> diagonal3x3(const vec<3, T, Q>& v) {
  return mat<3, 3, T, Q>(v.x, T(0), T(0), T(0), v.y, T(0), T(0), T(0), v.z);
}
template <typename T> __host__ __device__ inline mat<2, 2, T> make_mat2(const T* a) { return mat<2, 2, T>(a[0], a[1], a[2], a[3]); }
template <typename T> __host__ __device__ inline mat<3, 3, T> make_mat3(const T* a) {
  return mat<3, 3, T>(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
}
template <typename T> __host__ __device__ inline mat<4, 4, T> make_mat4(const T* a) {
  return mat<4, 4, T>(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
}
template <int C, int R, typename T, qualifier Q> __host__ __device__ inline const T* value_ptr(const mat<C, R, T, Q>& m) {
  return &m.value[0].x;
}

// ---- Quaternions: in memory x, y, z, w; made of w, x, y, z
template <typename T, qualifier Q = defaultp> struct qua {
  typedef T value_type;
  T x, y, z, w;
  qua() = default;
  __host__ __device__ qua(T w_, T x_, T y_, T z_) : x(x_), y(y_), z(z_), w(w_) {}
  __host__ __device__ qua(T s, const vec<3, T, Q>& v) : x(v.x), y(v.y), z(v.z), w(s) {}
  __host__ __device__ static constexpr int length() { return 4; }
  __host__ __device__ T& operator[](int i) { return (&x)[i]; }
  __host__ __device__ const T& operator[](int i) const { return (&x)[i]; }
};
KTC_GLM_FN qua<T, Q> operator+(const qua<T, Q>& a, const qua<T, Q>& b) { return qua<T, Q>(a.w + b.w, a.x + b.x, a.y + b.y, a.z + b.z); }
KTC_GLM_FN qua<T, Q> operator-(const qua<T, Q>& a, const qua<T, Q>& b) { return qua<T, Q>(a.w - b.w, a.x - b.x, a.y - b.y, a.z - b.z); }
KTC_GLM_FN qua<T, Q> operator-(const qua<T, Q>& a) { return qua<T, Q>(-a.w, -a.x, -a.y, -a.z); }
KTC_GLM_FN qua<T, Q> operator*(const qua<T, Q>& a, T s) { return qua<T, Q>(a.w * s, a.x * s, a.y * s, a.z * s); }
KTC_GLM_FN qua<T, Q> operator*(T s, const qua<T, Q>& a) { return a * s; }
KTC_GLM_FN qua<T, Q> operator/(const qua<T, Q>& a, T s) { return qua<T, Q>(a.w / s, a.x / s, a.y / s, a.z / s); }
KTC_GLM_FN qua<T, Q> operator*(const qua<T, Q>& p, const qua<T, Q>& q) {
  return qua<T, Q>(p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z, p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y,
                   p.w * q.y + p.y * q.w + p.z * q.x - p.x * q.z, p.w * q.z + p.z * q.w + p.x * q.y - p.y * q.x);
}
KTC_GLM_FN vec<3, T, Q> operator*(const qua<T, Q>& q, const vec<3, T, Q>& v) {
  const vec<3, T, Q> axis(q.x, q.y, q.z);
  const vec<3, T, Q> once = cross(axis, v);
  return v + ((once * q.w) + cross(axis, once)) * T(2);
}
KTC_GLM_FN vec<3, T, Q> rotate(const qua<T, Q>& q, const vec<3, T, Q>& v) { return q * v; }
KTC_GLM_FN T dot(const qua<T, Q>& a, const qua<T, Q>& b) { return (a.w * b.w + a.x * b.x) + (a.y * b.y + a.z * b.z); }
KTC_GLM_FN T length(const qua<T, Q>& q) { return ::sqrt(dot(q, q)); }
KTC_GLM_FN qua<T, Q> normalize(const qua<T, Q>& q) {
  const T size = length(q);
  if (size <= T(0)) return qua<T, Q>(T(1), T(0), T(0), T(0));
  return q * (T(1) / size);
}
KTC_GLM_FN qua<T, Q> conjugate(const qua<T, Q>& q) { return qua<T, Q>(q.w, -q.x, -q.y, -q.z); }
KTC_GLM_FN qua<T, Q> inverse(const qua<T, Q>& q) { return conjugate(q) / dot(q, q); }
KTC_GLM_FN qua<T, Q> lerp(const qua<T, Q>& a, const qua<T, Q>& b, T at) { return a * (T(1) - at) + b * at; }
KTC_GLM_FN qua<T, Q> slerp(const qua<T, Q>& a, const qua<T, Q>& b, T at) {
  qua<T, Q> to = b;
  T cosine = dot(a, b);
  if (cosine < T(0)) {
    to = -b;
    cosine = -cosine;
  }
  if (cosine > T(1) - epsilon<T>()) return lerp(a, to, at);
  const T angle = ::acos(cosine);
  return (::sin((T(1) - at) * angle) * a + ::sin(at * angle) * to) / ::sin(angle);
}
KTC_GLM_FN mat<3, 3, T, Q> mat3_cast(const qua<T, Q>& q) {
  const T xx = q.x * q.x, yy = q.y * q.y, zz = q.z * q.z;
  const T xz = q.x * q.z, xy = q.x * q.y, yz = q.y * q.z;
  const T wx = q.w * q.x, wy = q.w * q.y, wz = q.w * q.z;
  return mat<3, 3, T, Q>(T(1) - T(2) * (yy + zz), T(2) * (xy + wz), T(2) * (xz - wy),
                         T(2) * (xy - wz), T(1) - T(2) * (xx + zz), T(2) * (yz + wx),
                         T(2) * (xz + wy), T(2) * (yz - wx), T(1) - T(2) * (xx + yy));
}
KTC_GLM_FN qua<T, Q> quat_cast(const mat<3, 3, T, Q>& m) {  // by the largest of the four, so that no root is near 0
  const T of_x = m[0].x - m[1].y - m[2].z, of_y = m[1].y - m[0].x - m[2].z, of_z = m[2].z - m[0].x - m[1].y;
  const T of_w = m[0].x + m[1].y + m[2].z;
  int which = 0;
  T most = of_w;
  if (of_x > most) {
    most = of_x;
    which = 1;
  }
  if (of_y > most) {
    most = of_y;
    which = 2;
  }
  if (of_z > most) {
    most = of_z;
    which = 3;
  }
  const T value = ::sqrt(most + T(1)) * T(0.5);
  const T over = T(0.25) / value;
  if (which == 0) return qua<T, Q>(value, (m[1].z - m[2].y) * over, (m[2].x - m[0].z) * over, (m[0].y - m[1].x) * over);
  if (which == 1) return qua<T, Q>((m[1].z - m[2].y) * over, value, (m[0].y + m[1].x) * over, (m[2].x + m[0].z) * over);
  if (which == 2) return qua<T, Q>((m[2].x - m[0].z) * over, (m[0].y + m[1].x) * over, value, (m[1].z + m[2].y) * over);
  return qua<T, Q>((m[0].y - m[1].x) * over, (m[2].x + m[0].z) * over, (m[1].z + m[2].y) * over, value);
}

// ---- Names
template <typename T, qualifier Q = defaultp> using tvec2 = vec<2, T, Q>;
template <typename T, qualifier Q = defaultp> using tvec3 = vec<3, T, Q>;
template <typename T, qualifier Q = defaultp> using tvec4 = vec<4, T, Q>;
#define KTC_GLM_NAMES(PREFIX, T)   \
  typedef vec<1, T> PREFIX##vec1; \
  typedef vec<2, T> PREFIX##vec2; \
  typedef vec<3, T> PREFIX##vec3; \
  typedef vec<4, T> PREFIX##vec4;
KTC_GLM_NAMES(, float)
KTC_GLM_NAMES(f, float)
KTC_GLM_NAMES(d, double)
KTC_GLM_NAMES(i, int)
KTC_GLM_NAMES(u, unsigned int)
KTC_GLM_NAMES(b, bool)
#define KTC_GLM_MATRIX_NAMES(PREFIX, T)                                               \
  typedef mat<2, 2, T> PREFIX##mat2, PREFIX##mat2x2;                           \
  typedef mat<3, 3, T> PREFIX##mat3, PREFIX##mat3x3;                           \
  typedef mat<4, 4, T> PREFIX##mat4, PREFIX##mat4x4;                           \
  typedef mat<2, 3, T> PREFIX##mat2x3;                                         \
  typedef mat<2, 4, T> PREFIX##mat2x4;                                         \
  typedef mat<3, 2, T> PREFIX##mat3x2;                                         \
  typedef mat<3, 4, T> PREFIX##mat3x4;                                         \
  typedef mat<4, 2, T> PREFIX##mat4x2;                                         \
  typedef mat<4, 3, T> PREFIX##mat4x3;                                         \
  typedef qua<T> PREFIX##quat;
KTC_GLM_MATRIX_NAMES(, float)
KTC_GLM_MATRIX_NAMES(f, float)
KTC_GLM_MATRIX_NAMES(d, double)
}  // namespace glm
