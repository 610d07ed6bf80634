// What GPUVerify's annotations mean to a sanitizer: assertions are checked, preconditions are checked too (the runner
// drops inputs that break them), ghosts that relate two threads or past accesses have no value here.
#pragma once
#define __ktc_stop_unless(c) do { if (!(c)) __trap(); } while (0)
#define __assert(c) __ktc_stop_unless(c)
#define __global_assert(c) __ktc_stop_unless(c)
#define assert(c) __ktc_stop_unless(c)
#define __requires(c) __ktc_stop_unless(c)
#define __global_requires(c) __ktc_stop_unless(c)
#define __assume(c) __ktc_stop_unless(c)
#define __axiom(c) extern int __ktc_unused
#define __ensures(c) ((void)0)
#define __global_ensures(c) ((void)0)
#define __candidate_ensures(c) ((void)0)
#define __invariant(c) 0
#define __global_invariant(c) 0
#define __candidate_invariant(c) 0
#define __candidate_global_invariant(c) 0
#define __function_wide_invariant(c) ((void)0)
#define __function_wide_candidate_invariant(c) ((void)0)
#define __requires_fresh_array(p) ((void)0)
#define __reads_from(...) ((void)0)
#define __writes_to(...) ((void)0)
#define __barrier_invariant(...) ((void)0)
#define __barrier_invariant_1(...) ((void)0)
#define __barrier_invariant_2(...) ((void)0)
#define __barrier_invariant_3(...) ((void)0)
#define __barrier_invariant_4(...) ((void)0)
#define __barrier_invariant_5(...) ((void)0)
#define __barrier_invariant_6(...) ((void)0)
#define __barrier_invariant_7(...) ((void)0)
#define __barrier_invariant_9(...) ((void)0)
#define __barrier_invariant_11(...) ((void)0)
#define __barrier_invariant_13(...) ((void)0)
#define __barrier_invariant_15(...) ((void)0)
#define __barrier_invariant_17(...) ((void)0)
#define __barrier_invariant_19(...) ((void)0)
#define __barrier_invariant_binary(...) ((void)0)
#define __barrier_invariant_binary_1(...) ((void)0)
#define __barrier_invariant_binary_2(...) ((void)0)
#define __array_snapshot(...) ((void)0)
#define __implies(a, b) (!(a) || (b))
#define __ite(c, a, b) ((c) ? (a) : (b))
#define __enabled() 1
#define __dominator_enabled() 1
#define __mod_pow2(x, y) ((x) & ((y) - 1))
#define __max(a, b) ((a) > (b) ? (a) : (b))
#define __exclusive(...) 1
