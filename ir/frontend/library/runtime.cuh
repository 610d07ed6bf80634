// Plain structures of the CUDA runtime API that programs hand to kernels by value (driver_types.h), and what kernels
// that launch kernels call of it.
struct cudaExtent {
  size_t width;
  size_t height;
  size_t depth;
};
struct cudaPos {
  size_t x;
  size_t y;
  size_t z;
};
struct cudaPitchedPtr {
  void* ptr;
  size_t pitch;
  size_t xsize;
  size_t ysize;
};
enum __stream_flags { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
__device__ inline int cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  *stream = __ktc_stream_create(flags);
  return 0;
}
__device__ inline int cudaStreamDestroy(cudaStream_t stream) {
  __ktc_stream_destroy(stream);
  return 0;
}
