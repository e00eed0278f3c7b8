// Ctrl-C and SIGTERM as a request to stop. In: signals. Out: a stop source; a second signal ends the process at once.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

namespace jacserve::client {

class Interrupts {
 public:
  // Call before any thread is started: all of them inherit that these signals wait for this object's thread.
  Interrupts();
  ~Interrupts();

  const std::stop_source& stop() const { return stop_; }
  bool interrupted() const { return interrupted_; }  // by a signal, not by something else that asked to stop

 private:
  sigset_t signals_;
  std::stop_source stop_;
  std::atomic<bool> interrupted_ = false;
  std::jthread thread_;
};

}  // namespace jacserve::client
