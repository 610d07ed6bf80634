// Integers of 128 bits, as kernels use them: to move 16 bytes at once. Nothing is computed with them here.
struct __align__(16) __int128_t { unsigned long long low_; unsigned long long high_; };
struct __align__(16) __uint128_t { unsigned long long low_; unsigned long long high_; };
