// libcu++'s device facilities, after its documentation: pipelines and barriers of a block, atomics with a scope.
// A pipeline of one thread is the machine's asynchronous copies. What a whole block shares (a barrier, a pipeline with a
// shared state) is said with barriers of the block and copies that are done when they return: that allows fewer
// overlaps than the original and no other result, and code in which only some threads meet is refused as divergent.
namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
enum memory_order {
  memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release, memory_order_acq_rel,
  memory_order_seq_cst
};
template <unsigned long long Alignment> using aligned_size_t = unsigned long long;

template <typename T = void> struct maximum { template <typename X> __device__ X operator()(X a, X b) const { return a < b ? b : a; } };
template <typename T = void> struct minimum { template <typename X> __device__ X operator()(X a, X b) const { return b < a ? b : a; } };

template <typename T, typename U> __host__ __device__ constexpr auto ceil_div(T a, U b) { return (a + b - 1) / b; }

// Division by a number that is known when the kernel starts; the host's class keeps the divisor first.
template <typename T, bool NeverOne = false> struct fast_mod_div {
  T __divisor;
  unsigned int __multiplier;
  unsigned int __add;
  int __shift;
  fast_mod_div() = default;
  __device__ explicit fast_mod_div(T divisor) : __divisor(divisor), __multiplier(0u), __add(0u), __shift(0) {}
  __device__ operator T() const { return __divisor; }
};
template <typename N, typename T, bool NeverOne> __device__ T operator/(N n, fast_mod_div<T, NeverOne> d) { return (T)n / d.__divisor; }
template <typename N, typename T, bool NeverOne> __device__ T operator%(N n, fast_mod_div<T, NeverOne> d) { return (T)n % d.__divisor; }

// ---- barriers
struct __arrival { unsigned int phase; };
template <thread_scope Scope> struct barrier {
  unsigned long long state;
  using arrival_token = __arrival;
  __device__ __arrival arrive() { return __arrival{0u}; }
  __device__ __arrival arrive(long long n) { return __arrival{0u}; }
  __device__ void wait(__arrival token) { __syncthreads(); }
  __device__ void arrive_and_wait() { __syncthreads(); }
};
template <thread_scope Scope, typename N> __device__ void init(barrier<Scope>* to, N expected) {}

// ---- pipelines
template <thread_scope Scope> struct pipeline {
  unsigned int stage;
  __device__ void producer_acquire() {}
  __device__ void producer_commit() {
    if constexpr (Scope == thread_scope_thread) __pipeline_commit();
  }
  __device__ void consumer_wait() {
    if constexpr (Scope == thread_scope_thread) {
      __pipeline_wait_prior(0);
    } else {
      __syncthreads();
    }
  }
  __device__ void consumer_release() {
    if constexpr (Scope != thread_scope_thread) __syncthreads();
  }
  __device__ bool quit() { return true; }
};
template <thread_scope Scope, unsigned char Stages> struct pipeline_shared_state { unsigned long long state; };
__device__ inline pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>{0u}; }
template <typename Group, thread_scope Scope, unsigned char Stages>
__device__ pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state) {
  return pipeline<Scope>{0u};
}
template <unsigned char Prior> __device__ void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>& pipe) {
  __pipeline_wait_prior(Prior);
}

// ---- copies: by one thread, and by a group together
template <typename T, typename U, typename N>
__device__ void memcpy_async(T* to, const U* from, N bytes, pipeline<thread_scope_thread>& pipe) {
  __pipeline_memcpy_async(to, from, bytes);
}
template <typename T, typename U, typename N, thread_scope Scope>
__device__ void memcpy_async(T* to, const U* from, N bytes, barrier<Scope>& on) {
  for (unsigned int i = 0; i < bytes / sizeof(T); ++i) to[i] = from[i];
}
template <typename T, typename U, typename N, thread_scope Scope>
__device__ void memcpy_async(T* to, const U* from, N bytes, pipeline<Scope>& pipe) {
  for (unsigned int i = 0; i < bytes / sizeof(T); ++i) to[i] = from[i];
}
template <typename Group, typename T, typename U, typename N, typename On>
__device__ void memcpy_async(const Group& group, T* to, const U* from, N bytes, On& on) {
  for (unsigned int i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) to[i] = from[i];
}

// ---- atomics
template <thread_scope Scope> __device__ inline void __fence(memory_order order) {
  if (order != memory_order_relaxed) {
    if constexpr (Scope == thread_scope_block) {
      __threadfence_block();
    } else if constexpr (Scope == thread_scope_device) {
      __threadfence();
    } else if constexpr (Scope == thread_scope_system) {
      __threadfence_system();
    }
  }
}
__device__ inline void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (scope == thread_scope_block) {
    __threadfence_block();
  } else if (scope == thread_scope_device) {
    __threadfence();
  } else {
    __threadfence_system();
  }
}
// A compare-and-swap tells values apart by their bits: NaN is NaN, and -0.0 is not +0.0.
template <typename T> __device__ bool __same_bits(T a, T b) { return a == b; }
template <> __device__ bool __same_bits(float a, float b) { return __float_as_uint(a) == __float_as_uint(b); }
template <> __device__ bool __same_bits(double a, double b) {
  return __double_as_longlong(a) == __double_as_longlong(b);
}
template <typename T, thread_scope Scope = thread_scope_system> struct atomic_ref {
  T* at;
  __device__ atomic_ref(T& object) : at(&object) {}
  __device__ T load(memory_order order = memory_order_seq_cst) const {
    const T value = *static_cast<volatile T*>(at);
    __fence<Scope>(order);
    return value;
  }
  __device__ void store(T value, memory_order order = memory_order_seq_cst) const {
    __fence<Scope>(order);
    *static_cast<volatile T*>(at) = value;
  }
  __device__ operator T() const { return load(); }
  __device__ T operator=(T value) const {
    store(value);
    return value;
  }
#define KTC_FETCH(name, builtin)                                                       \
  __device__ T name(T value, memory_order order = memory_order_seq_cst) const {        \
    __fence<Scope>(order);                                                             \
    T old;                                                                             \
    if constexpr (Scope == thread_scope_block || Scope == thread_scope_thread) {       \
      old = builtin##_block(at, value);                                                \
    } else if constexpr (Scope == thread_scope_system) {                               \
      old = builtin##_system(at, value);                                               \
    } else {                                                                           \
      old = builtin(at, value);                                                        \
    }                                                                                  \
    __fence<Scope>(order);                                                             \
    return old;                                                                        \
  }
  KTC_FETCH(fetch_add, atomicAdd)
  KTC_FETCH(fetch_sub, atomicSub)
  KTC_FETCH(fetch_and, atomicAnd)
  KTC_FETCH(fetch_or, atomicOr)
  KTC_FETCH(fetch_xor, atomicXor)
  KTC_FETCH(fetch_min, atomicMin)
  KTC_FETCH(fetch_max, atomicMax)
  KTC_FETCH(exchange, atomicExch)
  __device__ bool compare_exchange_strong(T& expected, T desired, memory_order order = memory_order_seq_cst) const {
    __fence<Scope>(order);
    const T wanted = expected;
    T old;
    if constexpr (Scope == thread_scope_block || Scope == thread_scope_thread) {
      old = atomicCAS_block(at, wanted, desired);
    } else if constexpr (Scope == thread_scope_system) {
      old = atomicCAS_system(at, wanted, desired);
    } else {
      old = atomicCAS(at, wanted, desired);
    }
    __fence<Scope>(order);
    expected = old;
    return __same_bits(old, wanted);
  }
  __device__ bool compare_exchange_strong(T& expected, T desired, memory_order order, memory_order failure) const {
    return compare_exchange_strong(expected, desired, order);
  }
  __device__ bool compare_exchange_weak(T& expected, T desired, memory_order order = memory_order_seq_cst) const {
    return compare_exchange_strong(expected, desired, order);
  }
  __device__ bool compare_exchange_weak(T& expected, T desired, memory_order order, memory_order failure) const {
    return compare_exchange_strong(expected, desired, order);
  }
  __device__ T operator+=(T value) const { return fetch_add(value) + value; }
  __device__ T operator-=(T value) const { return fetch_sub(value) - value; }
  __device__ T operator++() const { return fetch_add((T)1) + (T)1; }
  __device__ T operator++(int) const { return fetch_add((T)1); }
};
}  // namespace cuda
