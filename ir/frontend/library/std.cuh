// The parts of the standard library that device code uses as types: tags, pairs, small arrays, function objects.
namespace std {

template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant<T, V>;
  __device__ constexpr operator T() const { return V; }
  __device__ constexpr T operator()() const { return V; }
};
enum class byte : unsigned char {};
enum float_round_style {
  round_indeterminate = -1,
  round_toward_zero = 0,
  round_to_nearest = 1,
  round_toward_infinity = 2,
  round_toward_neg_infinity = 3
};
enum float_denorm_style { denorm_indeterminate = -1, denorm_absent = 0, denorm_present = 1 };
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;

template <class T, T... I> struct integer_sequence {
  using value_type = T;
  __device__ static constexpr unsigned long size() { return sizeof...(I); }
};
template <unsigned long... I> using index_sequence = integer_sequence<unsigned long, I...>;

template <class A, class R> struct unary_function {
  using argument_type = A;
  using result_type = R;
};
template <class A, class B, class R> struct binary_function {
  using first_argument_type = A;
  using second_argument_type = B;
  using result_type = R;
};

template <class A, class B> struct pair {
  using first_type = A;
  using second_type = B;
  A first;
  B second;
};
template <class A, class B> __device__ pair<A, B> make_pair(A a, B b) { return {a, b}; }

template <class I> struct iterator_traits {
  using value_type = typename I::value_type;
  using difference_type = typename I::difference_type;
  using pointer = typename I::pointer;
  using reference = typename I::reference;
};
template <class T> struct iterator_traits<T*> {
  using value_type = T;
  using difference_type = long;
  using pointer = T*;
  using reference = T&;
};
template <class T> struct iterator_traits<const T*> {
  using value_type = T;
  using difference_type = long;
  using pointer = const T*;
  using reference = const T&;
};

// What the host keeps: a kernel that is passed one in an object asks for nothing of it.
template <class T> struct vector {
  T* begin_;
  T* end_;
  T* room_;
};

template <class T> __device__ void swap(T& a, T& b) {
  T old = a;
  a = b;
  b = old;
}

template <class T, unsigned long N> struct array {
  using value_type = T;
  T elements[N];
  __device__ T& operator[](unsigned long i) { return elements[i]; }
  __device__ constexpr unsigned long size() const { return N; }
  __device__ T* data() { return elements; }
  __device__ T* begin() { return elements; }
  __device__ T* end() { return elements + N; }
  __device__ T& front() { return elements[0]; }
  __device__ T& back() { return elements[N - 1]; }
  __device__ void fill(T v) { for (unsigned long i = 0; i < N; ++i) elements[i] = v; }
};

template <unsigned long Size, unsigned long Alignment = 16> struct aligned_storage {
  struct type {
    alignas(Alignment) unsigned char data[Size];
  };
};
template <unsigned long Size, unsigned long Alignment = 16>
using aligned_storage_t = typename aligned_storage<Size, Alignment>::type;

template <class T, unsigned long N> __device__ constexpr unsigned long size(const T (&a)[N]) { return N; }

// <bit>, of unsigned integers
template <class T> __device__ constexpr bool has_single_bit(T x) { return x != 0 && (x & (x - 1)) == 0; }
template <class T> __device__ constexpr int popcount(T x) {
  if constexpr (sizeof(T) == 8) return __popcll(x);
  else return __popc(x);
}
template <class T> __device__ constexpr int countl_zero(T x) {
  if constexpr (sizeof(T) == 8) return __clzll(x);
  else return __clz(x) - (32 - 8 * (int)sizeof(T));
}
template <class T> __device__ constexpr int countr_zero(T x) { return popcount((T)(~x & (x - 1))); }
template <class T> __device__ constexpr int bit_width(T x) { return 8 * (int)sizeof(T) - countl_zero(x); }
template <class T> __device__ constexpr T bit_floor(T x) {
  const int bits = bit_width(x);
  return x == 0 ? (T)0 : (T)((T)1 << (bits - 1));
}
template <class T> __device__ constexpr T bit_ceil(T x) {
  const int bits = bit_width((T)(x - 1));
  return x <= 1 ? (T)1 : (T)((T)1 << bits);
}

template <class T = void> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T = void> struct minus { __device__ T operator()(T a, T b) const { return a - b; } };
template <class T = void> struct multiplies { __device__ T operator()(T a, T b) const { return a * b; } };
template <class T = void> struct less { __device__ bool operator()(T a, T b) const { return a < b; } };
template <class T = void> struct greater { __device__ bool operator()(T a, T b) const { return a > b; } };

}  // namespace std
