// SHA-256 of bytes, hexadecimal: the digests of the engine are asynchronous, and a proposal wants one at once.

const PRIMES = [];
for (let number = 2; PRIMES.length < 64; number++) {
  if (PRIMES.every((prime) => number % prime !== 0)) PRIMES.push(number);
}
/** The first 32 bits of a root's fraction. */
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));

const turn = (word, by) => (word >>> by) | (word << (32 - by));

/** The bytes, a 1, zeroes, and their number of bits, in whole blocks. */
function padded(bytes) {
  const whole = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  whole.set(bytes);
  whole[bytes.length] = 0x80;
  const view = new DataView(whole.buffer);
  view.setUint32(whole.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(whole.length - 4, (bytes.length << 3) >>> 0);
  return view;
}

/** The words of a block, and 48 more that are made of them. */
function schedule(view, at) {
  const words = new Int32Array(64);
  for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const [far, near] = [words[i - 15], words[i - 2]];
    const first = turn(far, 7) ^ turn(far, 18) ^ (far >>> 3);
    const second = turn(near, 17) ^ turn(near, 19) ^ (near >>> 10);
    words[i] = words[i - 16] + first + words[i - 7] + second;
  }
  return words;
}

/** One block more. */
function mix(state, words) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const choice = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
    const first = (h + choice + ROUNDS[i] + words[i]) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  return [a, b, c, d, e, f, g, h].map((word, i) => (word + state[i]) | 0);
}

export function sha256(bytes) {
  const view = padded(bytes);
  let state = START;
  for (let at = 0; at < view.byteLength; at += 64) state = mix(state, schedule(view, at));
  return state.map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
