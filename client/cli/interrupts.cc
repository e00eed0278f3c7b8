#include "client/cli/interrupts.h"

#include <signal.h>
#include <unistd.h>

#include "client/cli/exit_code.h"

namespace jacserve::client {
namespace {

constexpr timespec kPoll = {0, 50'000'000};

}  // namespace

Interrupts::Interrupts() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like a full disk
  ::sigemptyset(&signals_);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, number);
  ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::jthread([this](const std::stop_token& done) {
    while (!done.stop_requested()) {
      if (::sigtimedwait(&signals_, nullptr, &kPoll) < 0) continue;
      if (interrupted_.exchange(true)) ::_exit(kExitInterrupted);
      stop_.request_stop();
    }
  });
}

Interrupts::~Interrupts() {
  thread_.request_stop();
  thread_.join();
}

}  // namespace jacserve::client
