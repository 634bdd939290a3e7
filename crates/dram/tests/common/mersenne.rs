//! Python's `random.Random(text)`: the Mersenne Twister (Matsumoto and Nishimura 1998), seeded by a
//! text and its SHA-512, so that requests are those of the reference to the bit.

const N: usize = 624;

pub struct Mersenne {
    state: [u32; N],
    index: usize,
}

impl Mersenne {
    pub fn new(seed: &str) -> Mersenne {
        let hash = ring::digest::digest(&ring::digest::SHA512, seed.as_bytes());
        let bytes: Vec<u8> = seed.bytes().chain(hash.as_ref().iter().copied()).collect();
        // One large number, most significant byte first, in words from the least on.
        let words: Vec<u32> = bytes
            .rchunks(4)
            .map(|chunk| chunk.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))
            .collect();
        let mut twister = Mersenne { state: [0; N], index: N };
        twister.seed_with(&words);
        twister
    }

    fn seed_with(&mut self, key: &[u32]) {
        let s = &mut self.state;
        s[0] = 19_650_218;
        for i in 1..N {
            s[i] = 1_812_433_253u32.wrapping_mul(s[i - 1] ^ s[i - 1] >> 30).wrapping_add(i as u32);
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..N.max(key.len()) {
            let mixed = (s[i - 1] ^ s[i - 1] >> 30).wrapping_mul(1_664_525);
            s[i] = (s[i] ^ mixed).wrapping_add(key[j]).wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % key.len();
            if i == N {
                s[0] = s[N - 1];
                i = 1;
            }
        }
        for _ in 1..N {
            let mixed = (s[i - 1] ^ s[i - 1] >> 30).wrapping_mul(1_566_083_941);
            s[i] = (s[i] ^ mixed).wrapping_sub(i as u32);
            i += 1;
            if i == N {
                s[0] = s[N - 1];
                i = 1;
            }
        }
        s[0] = 0x8000_0000;
    }

    fn next(&mut self) -> u32 {
        if self.index == N {
            for i in 0..N {
                let high = self.state[i] & 0x8000_0000;
                let y = high | self.state[(i + 1) % N] & 0x7fff_ffff;
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % N] ^ y >> 1 ^ odd;
            }
            self.index = 0;
        }
        let mut y = self.state[self.index];
        self.index += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    /// `random()`: 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        let (a, b) = (f64::from(self.next() >> 5), f64::from(self.next() >> 6));
        (a * 67_108_864.0 + b) / 9_007_199_254_740_992.0
    }

    /// `expovariate(1)`.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// `randrange(n)`.
    pub fn below(&mut self, n: u32) -> u64 {
        let bits = u32::BITS - n.leading_zeros();
        loop {
            let drawn = self.next() >> (32 - bits);
            if drawn < n {
                return u64::from(drawn);
            }
        }
    }
}
