"""A TCP proxy before one broker that keeps a request back, and what its sender sends on that connection after it.

The broker's own address in its answers becomes the proxy's, so that real clients stay on it. A connection that its client closes stays
open towards the broker while something of it is kept back: that is what a slow network does.
"""
import socket
import struct
import threading


def read_exactly(sock, size):
    data = b''
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


def read_frame(sock):
    """One frame with its length, None at the end of the stream."""
    head = read_exactly(sock, 4)
    if head is None:
        return None
    body = read_exactly(sock, struct.unpack('>i', head)[0])
    return None if body is None else head + body


class Held:
    """A request that is kept back."""

    def __init__(self):
        self.caught, self.let_go, self.answered = threading.Event(), threading.Event(), threading.Event()


class DelayingProxy:
    def __init__(self, host, port):
        self.broker = (host, port)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.host, self.port = self.listener.getsockname()
        self.lock, self.wanted = threading.Lock(), None
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, api_key):
        """Keeps the next request of this API back."""
        with self.lock:
            held = Held()
            self.wanted = (api_key, held)
            return held

    def _take(self, api_key):
        with self.lock:
            if self.wanted is None or self.wanted[0] != api_key:
                return None
            held, self.wanted = self.wanted[1], None
            return held

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        broker = socket.create_connection(self.broker)
        state = {}
        answers = threading.Thread(target=self._answers, args=(broker, client, state), daemon=True)
        answers.start()
        try:
            while (frame := read_frame(client)) is not None:
                held = self._take(struct.unpack('>h', frame[4:6])[0])
                if held is not None:
                    state.update(held=held, correlation=frame[8:12])
                    held.caught.set()
                    # What its sender says meanwhile stays in the socket.
                    held.let_go.wait()
                broker.sendall(frame)
        except OSError:
            pass
        if 'held' in state:
            state['held'].answered.wait(10)
        broker.close()

    def _answers(self, broker, client, state):
        ours = socket.inet_ntoa(socket.inet_aton(self.broker[0])).encode() + struct.pack('>i', self.broker[1])
        theirs = self.host.encode() + struct.pack('>i', self.port)
        try:
            while (frame := read_frame(broker)) is not None:
                if frame[4:8] == state.get('correlation'):
                    state['held'].answered.set()
                try:
                    client.sendall(frame.replace(ours, theirs))
                except OSError:
                    # The client has gone; the broker does not know.
                    pass
        except OSError:
            pass
