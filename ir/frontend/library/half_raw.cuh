// The bits of 16-bit floats: the records that the classes of cuda_fp16.h and cuda_bf16.h convert from and to. Braces hold
// bits, so each has a constructor from an integer where CUDA's are aggregates.
struct __half_raw {
  unsigned short x;
  __half_raw() = default;
  __half_raw(unsigned short bits) : x(bits) {}
  __half_raw(int bits) : x((unsigned short)bits) {}
  __half_raw(unsigned int bits) : x((unsigned short)bits) {}
  __half_raw(__half h) : x(__half_as_ushort(h)) {}
  operator __half() const { return __ushort_as_half(x); }
};
struct __nv_bfloat16_raw {
  unsigned short x;
  __nv_bfloat16_raw() = default;
  __nv_bfloat16_raw(unsigned short bits) : x(bits) {}
  __nv_bfloat16_raw(int bits) : x((unsigned short)bits) {}
  __nv_bfloat16_raw(unsigned int bits) : x((unsigned short)bits) {}
  __nv_bfloat16_raw(__nv_bfloat16 h) : x(__bfloat16_as_ushort(h)) {}
  operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};
struct __half2_raw {
  unsigned short x;
  unsigned short y;
  __half2_raw() = default;
  __half2_raw(unsigned short low, unsigned short high) : x(low), y(high) {}
  __half2_raw(__half2 h) : x(__half_as_ushort(h.x)), y(__half_as_ushort(h.y)) {}
  operator __half2() const { return __halves2half2(__ushort_as_half(x), __ushort_as_half(y)); }
};
struct __nv_bfloat162_raw {
  unsigned short x;
  unsigned short y;
  __nv_bfloat162_raw() = default;
  __nv_bfloat162_raw(unsigned short low, unsigned short high) : x(low), y(high) {}
  __nv_bfloat162_raw(__nv_bfloat162 h) : x(__bfloat16_as_ushort(h.x)), y(__bfloat16_as_ushort(h.y)) {}
  operator __nv_bfloat162() const { return __halves2bfloat162(__ushort_as_bfloat16(x), __ushort_as_bfloat16(y)); }
};
