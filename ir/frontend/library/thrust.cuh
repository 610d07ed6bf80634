// What device code uses of thrust as values: tuples, pairs, pointers, complex numbers, function objects.
namespace thrust {

template <typename... T> struct tuple {};
template <typename A, typename... R> struct tuple<A, R...> {
  A first;
  tuple<R...> rest;
  __device__ tuple() {}
  __device__ tuple(const A& a, const R&... r) : first(a), rest(r...) {}
  template <typename B, typename... S> __device__ tuple(const tuple<B, S...>& t) : first(t.first), rest(t.rest) {}
  template <typename B, typename... S> __device__ tuple& operator=(const tuple<B, S...>& t) {
    first = t.first;
    rest = t.rest;
    return *this;
  }
};
template <int I, typename A, typename... R> __device__ auto& get(tuple<A, R...>& t) {
  if constexpr (I == 0) return t.first;
  else return get<I - 1>(t.rest);
}
template <int I, typename A, typename... R> __device__ const auto& get(const tuple<A, R...>& t) {
  if constexpr (I == 0) return t.first;
  else return get<I - 1>(t.rest);
}
template <typename... T> __device__ tuple<T...> make_tuple(T... t) { return tuple<T...>(t...); }

template <typename A, typename B> struct pair {
  A first;
  B second;
  __device__ pair() {}
  __device__ pair(const A& a, const B& b) : first(a), second(b) {}
  template <typename C, typename D> __device__ pair(const pair<C, D>& p) : first(p.first), second(p.second) {}
};
template <typename A, typename B> __device__ pair<A, B> make_pair(A a, B b) { return pair<A, B>(a, b); }

template <typename A, typename B> struct tied {
  A& first;
  B& second;
  template <typename C, typename D> __device__ void operator=(const pair<C, D>& p) {
    first = p.first;
    second = p.second;
  }
  template <typename C, typename D> __device__ void operator=(const tuple<C, D>& t) {
    first = t.first;
    second = t.rest.first;
  }
};
template <typename A, typename B> __device__ tied<A, B> tie(A& a, B& b) { return tied<A, B>{a, b}; }

template <typename T> struct device_ptr {
  T* at;
  __device__ device_ptr() : at(nullptr) {}
  __device__ device_ptr(T* p) : at(p) {}
  __device__ T* get() const { return at; }
  __device__ T& operator*() const { return *at; }
  template <typename I> __device__ T& operator[](I i) const { return at[i]; }
  template <typename I> __device__ device_ptr<T> operator+(I i) const { return device_ptr<T>(at + i); }
  template <typename I> __device__ device_ptr<T> operator-(I i) const { return device_ptr<T>(at - i); }
  template <typename I> __device__ device_ptr<T>& operator+=(I i) {
    at += i;
    return *this;
  }
  __device__ device_ptr<T>& operator++() {
    ++at;
    return *this;
  }
};
template <typename T> __device__ T* raw_pointer_cast(const device_ptr<T>& p) { return p.at; }
template <typename T> __device__ T* raw_pointer_cast(T* p) { return p; }
template <typename T> __device__ device_ptr<T> device_pointer_cast(T* p) { return device_ptr<T>(p); }

template <typename T> struct complex {
  T re;
  T im;
  __device__ complex() : re(T(0)), im(T(0)) {}
  __device__ complex(T r) : re(r), im(T(0)) {}
  __device__ complex(T r, T i) : re(r), im(i) {}
  __device__ T real() const { return re; }
  __device__ T imag() const { return im; }
  __device__ void real(T r) { re = r; }
  __device__ void imag(T i) { im = i; }
  __device__ complex<T>& operator+=(const complex<T>& b) {
    re = re + b.re;
    im = im + b.im;
    return *this;
  }
  __device__ complex<T>& operator-=(const complex<T>& b) {
    re = re - b.re;
    im = im - b.im;
    return *this;
  }
  __device__ complex<T>& operator*=(const complex<T>& b) {
    const T r = re * b.re - im * b.im;
    im = re * b.im + im * b.re;
    re = r;
    return *this;
  }
};
template <typename T> __device__ complex<T> operator+(const complex<T>& a, const complex<T>& b) {
  return complex<T>(a.re + b.re, a.im + b.im);
}
template <typename T> __device__ complex<T> operator-(const complex<T>& a, const complex<T>& b) {
  return complex<T>(a.re - b.re, a.im - b.im);
}
template <typename T> __device__ complex<T> operator*(const complex<T>& a, const complex<T>& b) {
  return complex<T>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <typename T> __device__ complex<T> operator/(const complex<T>& a, const complex<T>& b) {
  T s = fabs(b.re) + fabs(b.im);
  T over = T(1) / s;
  const T ar = a.re * over;
  const T ai = a.im * over;
  const T br = b.re * over;
  const T bi = b.im * over;
  s = (br * br) + (bi * bi);
  over = T(1) / s;
  return complex<T>(((ar * br) + (ai * bi)) * over, ((ai * br) - (ar * bi)) * over);
}
template <typename T> __device__ complex<T> operator+(const complex<T>& a, T b) { return complex<T>(a.re + b, a.im); }
template <typename T> __device__ complex<T> operator+(T a, const complex<T>& b) { return complex<T>(a + b.re, b.im); }
template <typename T> __device__ complex<T> operator-(const complex<T>& a, T b) { return complex<T>(a.re - b, a.im); }
template <typename T> __device__ complex<T> operator-(T a, const complex<T>& b) { return complex<T>(a - b.re, -b.im); }
template <typename T> __device__ complex<T> operator*(const complex<T>& a, T b) { return complex<T>(a.re * b, a.im * b); }
template <typename T> __device__ complex<T> operator*(T a, const complex<T>& b) { return complex<T>(a * b.re, a * b.im); }
template <typename T> __device__ complex<T> operator/(const complex<T>& a, T b) { return complex<T>(a.re / b, a.im / b); }
template <typename T> __device__ complex<T> operator-(const complex<T>& a) { return complex<T>(-a.re, -a.im); }
template <typename T> __device__ bool operator==(const complex<T>& a, const complex<T>& b) {
  return a.re == b.re && a.im == b.im;
}
template <typename T> __device__ T abs(const complex<T>& a) { return hypot(a.re, a.im); }
template <typename T> __device__ T arg(const complex<T>& a) { return atan2(a.im, a.re); }
template <typename T> __device__ T norm(const complex<T>& a) { return a.re * a.re + a.im * a.im; }
template <typename T> __device__ complex<T> conj(const complex<T>& a) { return complex<T>(a.re, -a.im); }
template <typename T> __device__ complex<T> polar(T modulus, T angle) {
  return complex<T>(modulus * cos(angle), modulus * sin(angle));
}
template <typename T> __device__ complex<T> exp(const complex<T>& a) { return polar(::exp(a.re), a.im); }

template <typename T = void> struct plus { template <typename X> __device__ X operator()(X a, X b) const { return a + b; } };
template <typename T = void> struct minus { template <typename X> __device__ X operator()(X a, X b) const { return a - b; } };
template <typename T = void> struct multiplies {
  template <typename X> __device__ X operator()(X a, X b) const { return a * b; }
};
template <typename T = void> struct maximum {
  template <typename X> __device__ X operator()(X a, X b) const { return a < b ? b : a; }
};
template <typename T = void> struct minimum {
  template <typename X> __device__ X operator()(X a, X b) const { return a < b ? a : b; }
};
}  // namespace thrust
