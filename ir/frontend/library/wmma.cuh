// Warp matrix functions, after the CUDA C++ Programming Guide: a fragment is what each lane of a warp holds of a matrix.
// The guide leaves open which element lies where; here it is the layout of the mma instructions, of which a fragment
// has one or more: rows of 16 by columns of 8. An 8 x 32 product is taken as the transposed one, 32 x 8.
namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <typename T> struct __held { using type = T; };
template <> struct __held<precision::tf32> { using type = float; };

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {};
template <int M, int N, int K, typename T, typename Layout> struct fragment<matrix_a, M, N, K, T, Layout> {
  static constexpr int num_elements = M * K / 32;
  static constexpr int num_storage_elements = M * K / 32;
  using element_type = T;
  typename __held<T>::type x[M * K / 32];
};
template <int M, int N, int K, typename T, typename Layout> struct fragment<matrix_b, M, N, K, T, Layout> {
  static constexpr int num_elements = N * K / 32;
  static constexpr int num_storage_elements = N * K / 32;
  using element_type = T;
  typename __held<T>::type x[N * K / 32];
};
template <int M, int N, int K, typename T, typename Layout> struct fragment<accumulator, M, N, K, T, Layout> {
  static constexpr int num_elements = M * N / 32;
  static constexpr int num_storage_elements = M * N / 32;
  using element_type = T;
  T x[M * N / 32];
};

// ---- which element (row, column) of an operand's tile a lane keeps where
__device__ inline int __lane() {
  return (int)(((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 32u);
}
template <int Bytes> __device__ inline int __left_row(int lane, int slot) {
  if constexpr (Bytes == 2) return lane / 4 + slot / 2 % 2 * 8;
  else if constexpr (Bytes == 4) return lane / 4 + slot % 2 * 8;
  else if constexpr (Bytes == 1) return lane / 4 + slot / 4 * 8;
  else return lane / 4;
}
template <int Bytes> __device__ inline int __left_column(int lane, int slot) {
  if constexpr (Bytes == 2) return lane % 4 * 2 + slot % 2 + slot / 4 * 8;
  else if constexpr (Bytes == 4) return lane % 4 + slot / 2 * 4;
  else if constexpr (Bytes == 1) return lane % 4 * 4 + slot % 4;
  else return lane % 4;
}
template <int Bytes> __device__ inline int __right_row(int lane, int slot) {
  if constexpr (Bytes == 2) return lane % 4 * 2 + slot % 2 + slot / 2 * 8;
  else if constexpr (Bytes == 4) return lane % 4 + slot * 4;
  else if constexpr (Bytes == 1) return lane % 4 * 4 + slot;
  else return lane % 4;
}

// ---- moving fragments
template <int M, int N, int K, typename T, typename Layout, typename E>
__device__ void load_matrix_sync(fragment<matrix_a, M, N, K, T, Layout>& to, const E* from, unsigned int stride) {
  constexpr int bytes = sizeof(typename __held<T>::type);
  constexpr bool turned = M == 8 && N == 32;
  constexpr int slots = turned ? 8 * K / 32 : (bytes == 8 ? 1 : 16 * K / 32);
  const int lane = __lane();
#pragma unroll
  for (int i = 0; i < M * K / 32; ++i) {
    int row;
    int column;
    if constexpr (turned) {
      row = i / slots * 8 + lane / 4;
      column = __right_row<bytes>(lane, i % slots);
    } else {
      row = i / slots * 16 + __left_row<bytes>(lane, i % slots);
      column = __left_column<bytes>(lane, i % slots);
    }
    if constexpr (std::is_same<Layout, row_major>::value) {
      to.x[i] = from[row * stride + column];
    } else {
      to.x[i] = from[column * stride + row];
    }
  }
}
template <int M, int N, int K, typename T, typename Layout, typename E>
__device__ void load_matrix_sync(fragment<matrix_b, M, N, K, T, Layout>& to, const E* from, unsigned int stride) {
  constexpr int bytes = sizeof(typename __held<T>::type);
  constexpr bool turned = M == 8 && N == 32;
  constexpr int slots = turned ? 16 * K / 32 : 8 * K / 32;
  const int lane = __lane();
#pragma unroll
  for (int i = 0; i < N * K / 32; ++i) {
    int row;
    int column;
    if constexpr (turned) {
      row = __left_column<bytes>(lane, i % slots);
      column = i / slots * 16 + __left_row<bytes>(lane, i % slots);
    } else {
      row = __right_row<bytes>(lane, i % slots);
      column = i / slots * 8 + lane / 4;
    }
    if constexpr (std::is_same<Layout, row_major>::value) {
      to.x[i] = from[row * stride + column];
    } else {
      to.x[i] = from[column * stride + row];
    }
  }
}
// Row and column of slot i of an accumulator: tiles of 16 x 8, or 8 x 8 for doubles.
template <int M, int N, int Bytes> __device__ inline int __sum_row(int lane, int i) {
  if constexpr (Bytes == 8) return lane / 4;
  else if constexpr (M == 8) return lane % 4 * 2 + i % 2;
  else return i / 4 / (N / 8) * 16 + lane / 4 + i / 2 % 2 * 8;
}
template <int M, int N, int Bytes> __device__ inline int __sum_column(int lane, int i) {
  if constexpr (Bytes == 8) return lane % 4 * 2 + i;
  else if constexpr (M == 8) return i / 4 * 16 + lane / 4 + i / 2 % 2 * 8;
  else return i / 4 % (N / 8) * 8 + lane % 4 * 2 + i % 2;
}
template <int M, int N, int K, typename T>
__device__ void load_matrix_sync(fragment<accumulator, M, N, K, T>& to, const T* from, unsigned int stride, layout_t layout) {
  const int lane = __lane();
#pragma unroll
  for (int i = 0; i < M * N / 32; ++i) {
    const int row = __sum_row<M, N, sizeof(T)>(lane, i);
    const int column = __sum_column<M, N, sizeof(T)>(lane, i);
    to.x[i] = layout == mem_row_major ? from[row * stride + column] : from[column * stride + row];
  }
}
template <int M, int N, int K, typename T>
__device__ void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& from, unsigned int stride, layout_t layout) {
  const int lane = __lane();
#pragma unroll
  for (int i = 0; i < M * N / 32; ++i) {
    const int row = __sum_row<M, N, sizeof(T)>(lane, i);
    const int column = __sum_column<M, N, sizeof(T)>(lane, i);
    if (layout == mem_row_major) {
      to[row * stride + column] = from.x[i];
    } else {
      to[column * stride + row] = from.x[i];
    }
  }
}
template <typename Use, int M, int N, int K, typename T, typename Layout, typename V>
__device__ void fill_fragment(fragment<Use, M, N, K, T, Layout>& to, V value) {
#pragma unroll
  for (int i = 0; i < to.num_elements; ++i) to.x[i] = value;
}
__device__ inline float __float_to_tf32(float x) {
  const unsigned int bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

// ---- d = a * b + c; sums of half are taken in float and rounded once
template <int M, int N, int K, typename T, typename TD, typename TC, typename LA, typename LB>
__device__ void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, T, LA>& a,
                         const fragment<matrix_b, M, N, K, T, LB>& b, const fragment<accumulator, M, N, K, TC>& c,
                         bool saturate = false) {
  constexpr int bytes = sizeof(typename __held<T>::type);
  constexpr bool turned = M == 8 && N == 32;
  constexpr int rows = turned ? 2 : (bytes == 8 ? 1 : M / 16);
  constexpr int columns = turned ? 1 : N / 8;
  constexpr int lefts = bytes == 8 ? 1 : 16 * K / 32;
  constexpr int rights = 8 * K / 32;
  constexpr int sums = bytes == 8 ? 2 : 4;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      alignas(16) typename __held<T>::type left[lefts];
      alignas(16) typename __held<T>::type right[rights];
      typename __sum_type<TD>::type sum[sums];
#pragma unroll
      for (int i = 0; i < lefts; ++i) {
        if constexpr (turned) {
          left[i] = b.x[row * lefts + i];
        } else {
          left[i] = a.x[row * lefts + i];
        }
      }
#pragma unroll
      for (int i = 0; i < rights; ++i) {
        if constexpr (turned) {
          right[i] = a.x[column * rights + i];
        } else {
          right[i] = b.x[column * rights + i];
        }
      }
#pragma unroll
      for (int i = 0; i < sums; ++i) sum[i] = c.x[(row * columns + column) * sums + i];
      if constexpr (bytes == 8) {
        __ktc_mma_m8n8k4(sum, left, right);
      } else if constexpr (bytes == 4) {
        __ktc_mma_m16n8k8(sum, left, right);
      } else {
        __ktc_mma_m16n8k16(sum, left, right);
      }
#pragma unroll
      for (int i = 0; i < sums; ++i) d.x[(row * columns + column) * sums + i] = sum[i];
    }
  }
}
template <typename T> struct __sum_type { using type = T; };
template <> struct __sum_type<half> { using type = float; };
}  // namespace wmma
}  // namespace nvcuda
