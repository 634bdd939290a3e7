/* Forwards frames in the kernel, on the CPU that the redirect table names.
 *
 *   port -> receive -> table entry -> this CPU: forward -> devices -> sent -> port
 *                              \----> cpus -> serve: forward -> devices -> sent -> port
 *
 * `receive` runs on each port, `serve` on the CPU that a frame was handed to, `sent` when a device
 * takes a frame. What needs thought (options, TTL 1, addresses of this host, unknown neighbours,
 * VLANs) is passed to the kernel's stack on the CPU where it is found.
 *
 * tools/bpf.py compiles this file into forward.bpf, which the crate holds: users need no compiler.
 * `struct memory` is mirrored in memory.rs.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ENTRIES 128
#define CPUS 128
#define PORTS 32
/* An entry of the table: a CPU, and this bit if frames must not be overtaken. */
#define IN_ORDER 0x80
/* The CPU of an entry as a receiving CPU follows it, and this bit if it will be another one. */
#define WAITING 0x80
/* A moved entry whose old CPU never runs dry: after HOLD_NS its frames are dropped until that CPU
 * has served the earlier ones, after FORCE_NS it moves anyway. */
#define HOLD_NS 20000000ull
#define FORCE_NS 100000000ull

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { TCP = 6, UDP = 17, SCTP = 132 };
enum { IPV4 = 0x0008, IPV6 = 0xdd86 }; /* EtherTypes in network order. */

/* As <linux/bpf.h> has them, which is not needed to compile this. */
struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
struct fib {
	u8 family, protocol;
	u16 sport, dport, length;
	u32 interface;
	u32 tos_or_flow;
	u32 source[4], destination[4];
	u16 vlan_proto, vlan_tci;
	u8 source_mac[6], destination_mac[6];
};
static u64 (*const ktime)(void) = (void *)5;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const redirect)(void *map, u64 key, u64 otherwise) = (void *)51;
static long (*const fib_lookup)(void *context, struct fib *fib, int size, u32 flags) = (void *)69;

struct ethernet {
	u8 destination[6], source[6];
	u16 type;
} __attribute__((packed));
struct ipv4 {
	u8 version, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 source, destination;
};
struct ipv6 {
	u32 flow;
	u16 length;
	u8 next, hops;
	u32 source[4], destination[4];
};

/* An entry of the redirect table as one receiving CPU follows it. Each flow is received by one CPU,
 * so no other has to agree. */
struct flow {
	u64 last;  /* Number of the last frame handed to the entry's CPU. */
	u64 since; /* When the first frame was kept back from a new CPU, if it is WAITING. */
};
/* Counters of a CPU; only that CPU writes them. */
struct counters {
	u64 served;     /* Frames that it forwarded or passed as the table says. */
	u64 forwarded;  /* Frames given to a device; counted before `done`. */
	u64 sent;       /* Frames that a device took. */
	u64 passed;     /* Frames given to the kernel's stack. */
	u64 own;        /* Those of `served` that it received itself. */
	u64 held;       /* Frames dropped while an entry waited for its old CPU. */
	u64 forced;     /* Moves that did not wait for the old CPU. */
	u64 moved;      /* Moves that a frame followed. */
	u64 pad[8];
};
struct port {
	u64 received, sent;
};
/* One map of one value, which user space has mapped. */
struct memory {
	u8 table[ENTRIES];
	u8 mac[PORTS][8];
	struct counters counters[CPUS];
	struct port ports[CPUS][PORTS];
	u8 followed[CPUS][ENTRIES];
	struct flow flows[CPUS][ENTRIES];
	u64 given[CPUS][CPUS]; /* Frames handed over, by receiving and serving CPU. */
	u32 done[CPUS][CPUS];  /* Number of the last one served, by serving and receiving CPU. */
};

/* The loader puts the maps, and for PORT a number, where these names are used. */
extern struct memory memory;
extern char cpus, devices, PORT;

#define READ(word) (*(volatile typeof(word) *)&(word))
#define WRITE(word, value) (*(volatile typeof(word) *)&(word) = (value))
/* The machine keeps loads in order, and stores; the compiler must, too. */
#define IN_THIS_ORDER asm volatile("" ::: "memory")
#define INLINE static inline __attribute__((always_inline))

INLINE u16 swapped(u16 word)
{
	return __builtin_bswap16(word);
}

INLINE u32 mixed(u32 hash)
{
	hash = (hash ^ hash >> 15) * 0x2c1b3c6d;
	return hash ^ hash >> 13;
}

/* Ports of a transport header; 0 if the protocol has none. */
INLINE u32 transport_ports(u8 protocol, void *header, void *end)
{
	if (protocol != TCP && protocol != UDP && protocol != SCTP)
		return 0;
	return header + 4 > end ? 0 : *(u32 *)header;
}

/* The entry of an IPv4 packet; negative if the kernel's stack must take it. */
INLINE int entry_v4(struct ipv4 *ip, void *end)
{
	if ((void *)(ip + 1) > end || ip->version != 0x45 || ip->ttl <= 1)
		return -1;
	u16 length = swapped(ip->length);
	if (length < sizeof *ip || (void *)ip + length > end)
		return -1;
	u32 sum = 0;
	u16 *word = (u16 *)ip;
#pragma unroll
	for (int n = 0; n < 10; n++)
		sum += word[n];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	/* Sources that no packet may have: 0/8, 127/8 and all from 224/4 on. */
	u8 first = ip->source;
	if (sum != 0xffff || first == 0 || first == 127 || first >= 224)
		return -1;
	u32 ports = 0;
	/* All fragments of a packet take one way; only the first has its ports. */
	if (!(ip->fragment & swapped(0x3fff)))
		ports = transport_ports(ip->protocol, ip + 1, end);
	u32 hash = ip->source * 0x9e3779b1 ^ ip->destination * 0x85ebca77 ^ ports * 0xc2b2ae3d;
	return mixed(hash) % ENTRIES;
}

/* The entry of an IPv6 packet; negative if the kernel's stack must take it. */
INLINE int entry_v6(struct ipv6 *ip, void *end)
{
	if ((void *)(ip + 1) > end || (*(u8 *)ip >> 4) != 6 || ip->hops <= 1 || ip->next == 0)
		return -1;
	u32 length = swapped(ip->length);
	if (length == 0 || (void *)(ip + 1) + length > end)
		return -1;
	u8 *source = (u8 *)ip->source, *to = (u8 *)ip->destination;
	/* Of groups, of this link, of this host (::/96 has them all). */
	if (source[0] == 0xff || to[0] == 0xff)
		return -1;
	if ((source[0] == 0xfe && source[1] >= 0x80) || (to[0] == 0xfe && to[1] >= 0x80))
		return -1;
	if ((ip->source[0] | ip->source[1] | ip->source[2]) == 0)
		return -1;
	u32 hash = transport_ports(ip->next, ip + 1, end) * 0xc2b2ae3d;
#pragma unroll
	for (int n = 0; n < 4; n++)
		hash = mixed(hash ^ ip->source[n] * 0x9e3779b1 ^ ip->destination[n] * 0x85ebca77);
	return hash % ENTRIES;
}

/* The entry of a frame; negative if the kernel's stack must take it. */
INLINE int entry_of(void *data, void *end, u8 *mac)
{
	struct ethernet *ethernet = data;
	if ((void *)(ethernet + 1) > end)
		return -1;
	/* For this port alone: not for groups, nor for others whose frames a switch spreads. */
	if (*(u32 *)ethernet->destination != *(u32 *)mac)
		return -1;
	if (*(u16 *)(ethernet->destination + 4) != *(u16 *)(mac + 4))
		return -1;
	if (ethernet->type == IPV4)
		return entry_v4((void *)(ethernet + 1), end);
	if (ethernet->type == IPV6)
		return entry_v6((void *)(ethernet + 1), end);
	return -1;
}

INLINE void lower_ttl(struct ipv4 *ip)
{
	/* RFC 1624: the TTL is the upper byte of its word, so the sum grows by 0x0100. */
	u32 sum = ip->checksum + 0x0001u;
	ip->checksum = sum + (sum >> 16);
	ip->ttl--;
}

/* Fills what the kernel needs to find the route; false for other protocols. */
INLINE int ask(struct fib *fib, struct ethernet *ethernet, void *end)
{
	if (ethernet->type == IPV4) {
		struct ipv4 *ip = (void *)(ethernet + 1);
		if ((void *)(ip + 1) > end)
			return 0;
		fib->family = AF_INET;
		fib->protocol = ip->protocol;
		fib->length = swapped(ip->length);
		fib->tos_or_flow = ip->tos;
		fib->source[0] = ip->source;
		fib->destination[0] = ip->destination;
		return 1;
	}
	struct ipv6 *ip = (void *)(ethernet + 1);
	if ((void *)(ip + 1) > end || ethernet->type != IPV6)
		return 0;
	fib->family = AF_INET6;
	fib->protocol = ip->next;
	fib->length = swapped(ip->length) + sizeof *ip;
	fib->tos_or_flow = ip->flow & __builtin_bswap32(0x0fffffff);
#pragma unroll
	for (int n = 0; n < 4; n++) {
		fib->source[n] = ip->source[n];
		fib->destination[n] = ip->destination[n];
	}
	return 1;
}

/* Forwards a frame by the kernel's routes and neighbours, or passes it to the kernel's stack. */
INLINE int forward(struct xdp_md *context, struct counters *counters)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = data;
	struct fib fib = {};

	if ((void *)(ethernet + 1) > end || !ask(&fib, ethernet, end))
		goto pass;
	fib.interface = context->ingress_ifindex;
	if (fib_lookup(context, &fib, sizeof fib, 0) != 0)
		goto pass;
	/* Back where it came from: the kernel tells the sender of the shorter way. */
	if (fib.interface == context->ingress_ifindex)
		goto pass;
	/* Before the frame is changed: an interface that is no port is left to the kernel. */
	if (redirect(&devices, fib.interface, XDP_PASS) != XDP_REDIRECT)
		goto pass;
	if (ethernet->type == IPV4) {
		struct ipv4 *ip = (void *)(ethernet + 1);
		if ((void *)(ip + 1) > end)
			goto pass;
		lower_ttl(ip);
	} else {
		struct ipv6 *ip = (void *)(ethernet + 1);
		if ((void *)(ip + 1) > end)
			goto pass;
		ip->hops--;
	}
	__builtin_memcpy(ethernet->destination, fib.destination_mac, 6);
	__builtin_memcpy(ethernet->source, fib.source_mac, 6);
	WRITE(counters->forwarded, counters->forwarded + 1);
	return XDP_REDIRECT;
pass:
	WRITE(counters->passed, counters->passed + 1);
	return XDP_PASS;
}

enum { SERVED, UNSENT, QUEUED };

/* What has become of the last frame of a flow on its CPU. */
INLINE int progress(struct flow *flow, u32 on, u32 cpu)
{
	if (on != cpu) {
		u64 given = memory.given[cpu][on];
		/* Numbers wrap; the distance to the one that was served last does not. */
		u32 behind = (u32)given - READ(memory.done[on][cpu]);
		if (given - flow->last < behind)
			return QUEUED;
	}
	/* Served is not sent: a CPU gives devices several frames at a time. Read in this order, equal
	 * numbers mean that all that was given when the first was read has been sent. */
	IN_THIS_ORDER;
	u64 sent = READ(memory.counters[on].sent);
	IN_THIS_ORDER;
	return sent == READ(memory.counters[on].forwarded) ? SERVED : UNSENT;
}

/* The CPU for a frame of this entry; CPUS if the frame must be dropped. */
INLINE u32 choose(u32 entry, u32 cpu, struct counters *counters)
{
	u32 word = READ(memory.table[entry]), wanted = word % CPUS;
	u8 *followed = &memory.followed[cpu][entry];
	u32 on = *followed % CPUS;

	if (*followed == wanted)
		return wanted;
	struct flow *flow = &memory.flows[cpu][entry];
	int state = on != wanted && word & IN_ORDER ? progress(flow, on, cpu) : SERVED;
	if (state != SERVED) {
		u64 now = ktime();
		if (!(*followed & WAITING)) {
			flow->since = now;
			*followed = on | WAITING;
		}
		u64 waited = now - flow->since;
		if (waited <= HOLD_NS)
			return on;
		if (state == QUEUED && waited <= FORCE_NS) {
			counters->held++;
			return CPUS;
		}
		counters->forced++;
	}
	*followed = wanted;
	counters->moved += on != wanted;
	return wanted;
}

__attribute__((section("xdp/receive"), used)) int receive(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	u32 port = (u32)(long)&PORT % PORTS, cpu = this_cpu();

	if (cpu >= CPUS)
		return XDP_PASS;
	cpu %= CPUS;
	struct counters *counters = &memory.counters[cpu];
	memory.ports[cpu][port].received++;
	int entry = entry_of(data, end, memory.mac[port]);
	if (entry < 0) {
		WRITE(counters->passed, counters->passed + 1);
		return XDP_PASS;
	}
	u32 to = choose(entry % ENTRIES, cpu, counters);
	if (to == cpu) {
		counters->served++;
		counters->own++;
		return forward(context, counters);
	}
	if (to >= CPUS)
		return XDP_DROP;
	to %= CPUS;
	/* The serving CPU reads its number, and the port, where the port's address was. */
	struct ethernet *ethernet = data;
	if ((void *)(ethernet + 1) > end)
		return XDP_PASS;
	u64 number = memory.given[cpu][to] + 1;
	memory.given[cpu][to] = number;
	memory.flows[cpu][entry % ENTRIES].last = number;
	ethernet->destination[0] = cpu;
	ethernet->destination[1] = port;
	*(u32 *)(ethernet->destination + 2) = number;
	return redirect(&cpus, to, XDP_DROP);
}

__attribute__((section("xdp/serve"), used)) int serve(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethernet *ethernet = data;
	u32 cpu = this_cpu();

	if (cpu >= CPUS || (void *)(ethernet + 1) > end)
		return XDP_DROP;
	cpu %= CPUS;
	struct counters *counters = &memory.counters[cpu];
	u32 from = ethernet->destination[0] % CPUS, port = ethernet->destination[1] % PORTS;
	u32 number = *(u32 *)(ethernet->destination + 2);
	__builtin_memcpy(ethernet->destination, memory.mac[port], 6);
	counters->served++;
	int action = forward(context, counters);
	/* After `forwarded`: who sees this number sees that the frame is not sent yet. */
	IN_THIS_ORDER;
	WRITE(memory.done[cpu][from], number);
	return action;
}

__attribute__((section("xdp/sent"), used)) int sent(void)
{
	u32 port = (u32)(long)&PORT % PORTS, cpu = this_cpu() % CPUS;
	struct counters *counters = &memory.counters[cpu];

	memory.ports[cpu][port].sent++;
	WRITE(counters->sent, counters->sent + 1);
	return XDP_PASS;
}
