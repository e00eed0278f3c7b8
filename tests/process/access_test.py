"""Who is let in: tokens and certificates on every link, with real programs and certificates made here."""
import os
import subprocess
import time
import unittest

from cluster import BIN, Coordinator, ResultFolders, Worker, result, run, seed_arguments, start, wait_until

ROWS = ["--rows", "0:8", "--wrt", "dense1.*"]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """Makes certificates of its own."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.ca = os.path.join(folder, f"{name}-ca.pem")
        self.key = os.path.join(folder, f"{name}-ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.ca, "-subj", f"/CN={name}", "-days", "2")

    def issue(self, subject, days=2):
        """Paths of a certificate for 127.0.0.1 and its key."""
        base = os.path.join(self.folder, f"{self.name}-{subject}")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{base}.key", "-out",
                f"{base}.csr", "-subj", f"/CN={subject}")
        with open(f"{base}.ext", "w") as file:
            file.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("x509", "-req", "-in", f"{base}.csr", "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-extfile",
                f"{base}.ext", "-days", str(days), "-out", f"{base}.pem")
        return f"{base}.pem", f"{base}.key"


class Access(ResultFolders):
    def setUp(self):
        super().setUp()
        self.tokens, self.secrets = self.out("tokens"), {}
        for name, roles in (("alice", "compute,upload"), ("box", "worker")):
            command = [f"{BIN}/jacserve", "token", name, "--roles", roles, "--json"]
            made = result(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.secrets[name] = self.out(name)
            with open(self.secrets[name], "w") as file:
                file.write(made["token"] + "\n")
            with open(self.tokens, "a") as file:
                file.write(made["line"] + "\n")

    def client(self, coordinator, *more, name="result"):
        return start(seed_arguments(coordinator.address, *ROWS, "--out", self.out(name), *more))

    def assert_refused(self, coordinator, *cases):
        """Each case: words that a client is told that is not let in, and what it shows. All at once: they wait."""
        processes = [self.client(coordinator, *shown, name=f"none{i}") for i, (_, *shown) in enumerate(cases)]
        for (words, *shown), process in zip(cases, processes):
            _, said = process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0, shown)
            self.assertIn(words, said, shown)

    def test_tokens_and_tls_on_every_link_give_the_same_rows(self):
        own, others = Authority(self.folder.name, "own"), Authority(self.folder.name, "others")
        server, worker, client = (own.issue(name) for name in ("server", "worker", "client"))
        access = ["--tokens", self.tokens, "--tls-cert", server[0], "--tls-key", server[1], "--tls-client-ca", own.ca]
        alice = ["--token-file", self.secrets["alice"]]
        mine = ["--tls-ca", own.ca, "--tls-cert", client[0], "--tls-key", client[1]]
        with Coordinator(0, extra=access, ready=0, client=[*alice, *mine]) as coordinator:
            joined = ["--token-file", self.secrets["box"], "--tls-ca", own.ca, "--tls-cert", worker[0], "--tls-key",
                      worker[1]]
            with Worker(coordinator, *joined):
                wait_until(lambda: [w["state"] for w in coordinator.workers()] == ["ready"], "the worker")
                report = result(self.client(coordinator, *alice, *mine, name="guarded"))
                self.assertEqual(report["rows"], 8)
            strange = others.issue("client")
            self.assert_refused(
                coordinator,
                ("--tls or --tls-ca is needed", *alice),
                ("Does it serve TLS", *alice, "--tls-ca", others.ca, *mine[2:]),
                ("no server answers", *alice, "--tls-ca", own.ca),
                ("no server answers", *alice, "--tls-ca", own.ca, "--tls-cert", strange[0], "--tls-key", strange[1]),
                ("is not the key", *alice, "--tls-ca", own.ca, "--tls-cert", client[0], "--tls-key", strange[1]),
                ("asks for a token", *mine))
        with Coordinator(1) as coordinator:
            result(self.client(coordinator, name="open"))
        self.assert_same_folders(self.out("guarded"), self.out("open"))

    def test_a_renewed_certificate_needs_no_restart_and_an_expired_one_is_refused(self):
        own = Authority(self.folder.name, "own")
        expired, key = own.issue("server", days=-1)
        trust = ["--tls-ca", own.ca]
        extra = ["--tls-cert", expired, "--tls-key", key]
        with Coordinator(1, extra=extra, ready=0, client=trust, wait=False) as coordinator:
            self.assert_refused(coordinator, ("no server answers", *trust))
            own.issue("server")  # into the same files
            wait_until(lambda: run(["info", "--server", coordinator.address, *trust], check=False).returncode == 0,
                       "the renewed certificate")
            self.assertEqual(result(self.client(coordinator, *trust))["rows"], 8)

    def test_a_worker_without_the_right_token_ends_and_says_why(self):
        with Coordinator(0, extra=["--tokens", self.tokens], ready=0,
                         client=["--token-file", self.secrets["alice"]]) as coordinator:
            for token, words in ((None, "asks for a token"), ("alice", "lacks the role 'worker'")):
                command = [f"{BIN}/jacserve-worker", "--coordinator", coordinator.address]
                command += ["--token-file", self.secrets[token]] if token else []
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stdout + done.stderr)

    def test_local_workers_need_no_token_and_clients_do(self):
        alice = ["--token-file", self.secrets["alice"]]
        with Coordinator(1, extra=["--tokens", self.tokens], client=alice) as coordinator:
            self.assertEqual(result(self.client(coordinator, *alice))["rows"], 8)
            self.assert_refused(coordinator, ("asks for a token",),
                                ("lacks the role", "--token-file", self.secrets["box"]))

    def test_certificates_that_would_not_be_used_are_refused(self):
        own = Authority(self.folder.name, "own")
        for extra in (["--tls-client-ca", own.ca], ["--tls-key", own.key], ["--tls-worker-ca", self.out("missing.pem")],
                      ["--listen", "unix-abstract:everybody"]):
            command = [f"{BIN}/jacserve-coordinator", "--state-dir", self.out("state"), *extra]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0, extra)
            self.assertRegex(done.stderr, "--tls-cert|certificate|missing.pem|abstract")

    def test_other_machines_are_served_openly_only_when_said(self):
        for program, more in (("jacserve-coordinator", ["--state-dir", self.out("state")]),
                              ("jacserve-worker", ["--coordinator", "127.0.0.1:1"])):
            command = [f"{BIN}/{program}", *more, "--listen", "0.0.0.0:0"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--insecure", done.stderr)
            with subprocess.Popen([*command, "--insecure"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as open_:
                time.sleep(0.5)
                self.assertIsNone(open_.poll(), program)
                open_.terminate()


if __name__ == "__main__":
    unittest.main()
