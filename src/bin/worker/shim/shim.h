// Shared by the files of the shim: no exception crosses into Rust.

#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace shim {

// Why the last call of this thread failed.
inline thread_local std::string last_error;

inline bool fail(const std::string& message) {
  last_error = message;
  return false;
}

// Runs `body`; an exception becomes `false` and `last_error`.
template <typename Body>
bool guarded(Body body) {
  try {
    body();
    return true;
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

} // namespace shim
