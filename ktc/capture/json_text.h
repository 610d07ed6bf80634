// Strings as JSON has them, and names of C++ functions.
#pragma once
#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

namespace {

std::string quoted(const std::string &s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    char hex[8];
    snprintf(hex, sizeof hex, "\\u%04x", c);
    out += c == '"' || c == '\\' || c < 32 ? std::string(hex) : std::string(1, c);
  }
  return out + "\"";
}

std::string demangled(const std::string &symbol) {
  int status = 0;
  char *text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : symbol;
  free(text);
  return out;
}

std::string hexadecimal(const unsigned char *data, size_t n) {
  static const char *digits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < n; ++i) (out += digits[data[i] >> 4]) += digits[data[i] & 15];
  return out;
}

}  // namespace
