// Status plumbing: propagate absl::Status without noise, and stop on our own bugs.
// In: expressions of absl::Status or absl::StatusOr. Out: an early return, or the value.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

#define JACSERVE_CONCAT_INNER(a, b) a##b
#define JACSERVE_CONCAT(a, b) JACSERVE_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, MakeX()): declares or assigns x, or returns the error.
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(JACSERVE_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) {                            \
    return tmp.status();                      \
  }                                           \
  lhs = *std::move(tmp)

// For our own bugs only, never for what a user sent.
#define JACSERVE_CHECK(condition)                                                        \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
