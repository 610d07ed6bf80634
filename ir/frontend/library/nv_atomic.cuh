// nvcc's built-in atomics (CUDA C++ Programming Guide, "Built-in Atomic Functions"): an order and a scope for each.
// Orders are said with fences around the access, which is never weaker than what is asked for.
constexpr int __NV_ATOMIC_RELAXED = 0, __NV_ATOMIC_CONSUME = 1, __NV_ATOMIC_ACQUIRE = 2, __NV_ATOMIC_RELEASE = 3,
              __NV_ATOMIC_ACQ_REL = 4, __NV_ATOMIC_SEQ_CST = 5;
constexpr int __NV_THREAD_SCOPE_THREAD = 0, __NV_THREAD_SCOPE_BLOCK = 1, __NV_THREAD_SCOPE_CLUSTER = 2,
              __NV_THREAD_SCOPE_DEVICE = 3, __NV_THREAD_SCOPE_SYSTEM = 4;

__device__ inline void __nv_fence(int order, int scope) {
  if (order != __NV_ATOMIC_RELAXED && scope != __NV_THREAD_SCOPE_THREAD) {
    if (scope == __NV_THREAD_SCOPE_BLOCK) {
      __threadfence_block();
    } else if (scope == __NV_THREAD_SCOPE_SYSTEM) {
      __threadfence_system();
    } else {
      __threadfence();
    }
  }
}
__device__ inline void __nv_atomic_thread_fence(int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_fence(order, scope);
}
template <typename T> __device__ T __nv_atomic_load_n(T* at, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  const T value = *static_cast<volatile T*>(at);
  __nv_fence(order, scope);
  return value;
}
template <typename T>
__device__ void __nv_atomic_load(T* at, T* to, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  *to = __nv_atomic_load_n(at, order, scope);
}
template <typename T>
__device__ void __nv_atomic_store_n(T* at, T value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_fence(order, scope);
  *static_cast<volatile T*>(at) = value;
}
template <typename T>
__device__ void __nv_atomic_store(T* at, T* from, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_store_n(at, *from, order, scope);
}
#define KTC_NV_ATOMIC(name, builtin)                                                              \
  template <typename T>                                                                           \
  __device__ T name(T* at, T value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM) {            \
    __nv_fence(order, scope);                                                                     \
    T old;                                                                                        \
    if (scope <= __NV_THREAD_SCOPE_BLOCK) {                                                       \
      old = builtin##_block(at, value);                                                           \
    } else if (scope == __NV_THREAD_SCOPE_SYSTEM) {                                               \
      old = builtin##_system(at, value);                                                          \
    } else {                                                                                      \
      old = builtin(at, value);                                                                   \
    }                                                                                             \
    __nv_fence(order, scope);                                                                     \
    return old;                                                                                   \
  }
KTC_NV_ATOMIC(__nv_atomic_fetch_add, atomicAdd)
KTC_NV_ATOMIC(__nv_atomic_fetch_sub, atomicSub)
KTC_NV_ATOMIC(__nv_atomic_fetch_and, atomicAnd)
KTC_NV_ATOMIC(__nv_atomic_fetch_or, atomicOr)
KTC_NV_ATOMIC(__nv_atomic_fetch_xor, atomicXor)
KTC_NV_ATOMIC(__nv_atomic_fetch_min, atomicMin)
KTC_NV_ATOMIC(__nv_atomic_fetch_max, atomicMax)
KTC_NV_ATOMIC(__nv_atomic_exchange_n, atomicExch)
template <typename T>
__device__ bool __nv_atomic_compare_exchange_n(T* at, T* expected, T desired, bool weak, int order, int failure,
                                               int scope = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_fence(order, scope);
  const T wanted = *expected;
  T old;
  if (scope <= __NV_THREAD_SCOPE_BLOCK) {
    old = atomicCAS_block(at, wanted, desired);
  } else if (scope == __NV_THREAD_SCOPE_SYSTEM) {
    old = atomicCAS_system(at, wanted, desired);
  } else {
    old = atomicCAS(at, wanted, desired);
  }
  __nv_fence(order, scope);
  *expected = old;
  return old == wanted;
}
