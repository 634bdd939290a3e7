/* Minimum-cost flow by the network simplex method, as of vehicles on timetabled trips.
 *
 *   mcf FILE                            solves a problem in the DIMACS form; prints its optimum
 *   mcf trips TRIPS LINKS SEED PIVOTS   solves a problem of its own; recording starts after PIVOTS
 *
 * Ahuja, Magnanti, Orlin, Network Flows (1993), ch. 11: the basis is a spanning tree of nodes that point to
 * their parents, children and siblings; a pivot takes an arc in, pushes flow round the cycle that it closes,
 * and hangs what is cut off anew. Strongly feasible trees keep it from cycling (section 11.6). Pricing is
 * multiple partial (A. Loebel, Vehicle Scheduling in Public Transit, 1997): groups of arcs in turn, the best
 * of some kept. What is solved is checked: flows keep their bounds and balances, and no arc would help. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

#define GROUP 300
#define KEPT 50

typedef struct Node Node;
typedef struct Arc Arc;
typedef enum { AT_LOWER = 1, AT_UPPER = -1, IN_TREE = 0 } State;

struct Node {
    long potential;
    Node *parent, *child, *next, *before;
    Arc *arc; /* to the parent, or from it */
    long depth, supply;
};

struct Arc {
    long cost;
    Node *tail, *head;
    long flow, capacity;
    State state;
};

typedef struct {
    Arc *arc;
    long gain;
} Candidate;

static Node *nodes, *root;
static Arc *arcs;
static long node_count, arc_count; /* without the root and the arcs to it */
static Candidate kept[KEPT + GROUP];
static long kept_count, group, group_count;

static void fail(const char *what) {
    fprintf(stderr, "mcf: %s\n", what);
    exit(1);
}

static void *need(void *memory) {
    if (memory == NULL) fail("not enough memory");
    return memory;
}

static long gain(const Arc *arc) {
    return -(long)arc->state * (arc->cost - arc->tail->potential + arc->head->potential);
}

/* ---- the tree ---- */

static void hang(Node *node, Node *parent) {
    node->parent = parent;
    node->next = parent->child;
    node->before = NULL;
    if (parent->child != NULL) parent->child->before = node;
    parent->child = node;
}

static void unhang(Node *node) {
    if (node->before != NULL)
        node->before->next = node->next;
    else
        node->parent->child = node->next;
    if (node->next != NULL) node->next->before = node->before;
}

/* Depths and potentials of a node and all below it, from its parent's. */
static void refresh(Node *top) {
    Node *node = top;
    for (;;) {
        const Node *parent = node->parent;
        node->depth = parent->depth + 1;
        node->potential = node->arc->tail == node ? parent->potential + node->arc->cost
                                                  : parent->potential - node->arc->cost;
        if (node->child != NULL) {
            node = node->child;
            continue;
        }
        while (node != top && node->next == NULL) node = node->parent;
        if (node == top) return;
        node = node->next;
    }
}

/* Hangs `node` under `parent` by `arc`, and what was above it, up to `cut`, below it. */
static void rehang(Node *node, Node *parent, Arc *arc, const Node *cut) {
    Node *top = node;
    for (;;) {
        Node *old_parent = node->parent;
        Arc *old_arc = node->arc;
        int last = node == cut;
        unhang(node);
        hang(node, parent);
        node->arc = arc;
        if (last) break;
        parent = node, arc = old_arc, node = old_parent;
    }
    refresh(top);
}

/* ---- a pivot ---- */

/* How much more the arc of `node` carries in the direction of the flow: up the tree, or down. */
static long room(const Node *node, int up) {
    int along = (node->arc->tail == node) == up;
    return along ? node->arc->capacity - node->arc->flow : node->arc->flow;
}

static void push(Node *node, int up, long flow) {
    int along = (node->arc->tail == node) == up;
    node->arc->flow += along ? flow : -flow;
}

static Node *meeting(Node *a, Node *b) {
    while (a != b) {
        if (a->depth >= b->depth)
            a = a->parent;
        else
            b = b->parent;
    }
    return a;
}

/* The flow goes from the meeting point down to `from`, through the arc to `to`, and up again. Of the arcs
 * that block it the last leaves. */
static void pivot(Arc *in) {
    int forwards = in->state == AT_LOWER;
    Node *from = forwards ? in->tail : in->head, *to = forwards ? in->head : in->tail;
    Node *apex = meeting(from, to), *cut = NULL;
    long flow = in->capacity;
    int cut_below_to = 0;
    for (Node *node = from; node != apex; node = node->parent)
        if (room(node, 0) < flow) flow = room(node, 0), cut = node;
    for (Node *node = to; node != apex; node = node->parent)
        if (room(node, 1) <= flow) flow = room(node, 1), cut = node, cut_below_to = 1;
    if (flow >= LONG_MAX / 4) fail("costs have no bound");
    if (flow > 0) {
        for (Node *node = from; node != apex; node = node->parent) push(node, 0, flow);
        for (Node *node = to; node != apex; node = node->parent) push(node, 1, flow);
        in->flow += forwards ? flow : -flow;
    }
    if (cut == NULL) {
        in->state = forwards ? AT_UPPER : AT_LOWER;
        return;
    }
    cut->arc->state = cut->arc->flow == 0 ? AT_LOWER : AT_UPPER;
    in->state = IN_TREE;
    if (cut_below_to)
        rehang(to, from, in, cut);
    else
        rehang(from, to, in, cut);
}

/* ---- pricing ---- */

static int by_gain(const void *a, const void *b) {
    long x = ((const Candidate *)a)->gain, y = ((const Candidate *)b)->gain;
    return (x < y) - (x > y);
}

/* The best arc of those kept and of the next group that has any; NULL if none would help. Arcs of a group
 * lie far apart, so that each is a sample of all. */
static Arc *best(void) {
    long still = 0;
    for (long i = 1; i < kept_count && i < KEPT; i++) {
        Candidate candidate = {kept[i].arc, gain(kept[i].arc)};
        if (candidate.gain > 0) kept[still++] = candidate;
    }
    kept_count = still;
    for (long tried = 0; tried < group_count; tried++) {
        for (Arc *arc = arcs + group; arc < arcs + arc_count; arc += group_count) {
            long gained = arc->state == IN_TREE ? 0 : gain(arc);
            if (gained > 0) kept[kept_count++] = (Candidate){arc, gained};
        }
        group = (group + 1) % group_count;
        if (kept_count > 0) break;
    }
    if (kept_count == 0) return NULL;
    qsort(kept, (size_t)kept_count, sizeof kept[0], by_gain);
    return kept[0].arc;
}

/* ---- solving ---- */

/* All supplies go to the root by arcs of their own, at a cost that nobody would pay. */
static void begin(void) {
    long dear = 1;
    for (long i = 0; i < arc_count; i++) dear += labs(arcs[i].cost);
    dear = dear < 100000000 ? dear : 100000000;
    for (long i = 0; i < node_count; i++) {
        Arc *arc = &arcs[arc_count + i];
        Node *node = &nodes[i];
        int out = node->supply >= 0;
        *arc = (Arc){dear, out ? node : root, out ? root : node, labs(node->supply), LONG_MAX / 2, IN_TREE};
        node->arc = arc;
        hang(node, root);
        refresh(node);
    }
    group_count = (arc_count + GROUP - 1) / GROUP;
}

static long solve(long warm_up) {
    begin();
    long pivots = 0;
    for (Arc *in = best(); in != NULL; in = best()) {
        if (pivots++ == warm_up) start_recording();
        pivot(in);
    }
    return pivots;
}

static long check(void) {
    long cost = 0;
    for (long i = 0; i < arc_count + node_count; i++) {
        const Arc *arc = &arcs[i];
        if (arc->flow < 0 || arc->flow > arc->capacity) fail("wrong: a flow is out of its bounds");
        if (arc->state != IN_TREE && i < arc_count && gain(arc) > 0) fail("wrong: an arc would help");
        if (i >= arc_count && arc->flow > 0) fail("there is no such flow");
        cost += arc->flow * arc->cost;
        arc->tail->supply -= arc->flow;
        arc->head->supply += arc->flow;
    }
    for (long i = 0; i < node_count; i++)
        if (nodes[i].supply != 0) fail("wrong: a node is out of balance");
    return cost;
}

/* ---- problems ---- */

static void make_room(long nodes_wanted, long arcs_wanted) {
    if (nodes_wanted < 1 || arcs_wanted < 1) fail("expected nodes and arcs");
    node_count = nodes_wanted;
    nodes = need(calloc((size_t)node_count + 1, sizeof(Node)));
    arcs = need(calloc((size_t)(arcs_wanted + node_count), sizeof(Arc)));
    root = &nodes[node_count];
}

static void add(long tail, long head, long capacity, long cost) {
    if (tail < 0 || head < 0 || tail >= node_count || head >= node_count || capacity < 0)
        fail("an arc between nodes that are not there, or with less than no capacity");
    arcs[arc_count++] = (Arc){cost, &nodes[tail], &nodes[head], 0, capacity, AT_LOWER};
}

static void read_problem(const char *path) {
    FILE *file = fopen(path, "r");
    char line[200];
    long a, b, c, d, e, wanted = -1;
    if (file == NULL) fail("cannot read the problem");
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "p min %ld %ld", &a, &b) == 2 && wanted < 0)
            make_room(a, wanted = b);
        else if (sscanf(line, "n %ld %ld", &a, &b) == 2 && wanted >= 0 && a >= 1 && a <= node_count)
            nodes[a - 1].supply = b;
        else if (sscanf(line, "a %ld %ld %ld %ld %ld", &a, &b, &c, &d, &e) == 5 && c == 0 && arc_count < wanted)
            add(a - 1, b - 1, d, e);
        else if (line[0] != 'c' && line[0] != '\n')
            fail("expected `p min NODES ARCS`, `n NODE SUPPLY`, `a TAIL HEAD 0 CAPACITY COST`");
    }
    fclose(file);
    if (wanted < 0) fail("expected `p min NODES ARCS`");
}

/* Trips in the order of their times, a depot, and links from each trip to later ones that the same vehicle
 * can serve: a trip is entered at node 2i + 1 and left at 2i + 2. */
static void make_trips(long trips, long links, unsigned long seed) {
    make_room(2 * trips + 1, 2 * trips + links);
#define PICK(below) ((long)((seed = seed * 6364136223846793005 + 1442695040888963407) >> 33) % (below))
    for (long i = 0; i < trips; i++) {
        nodes[2 * i + 1].supply = -1, nodes[2 * i + 2].supply = 1;
        add(0, 2 * i + 1, 1, 5000 + PICK(1000));
        add(2 * i + 2, 0, 1, 5000 + PICK(1000));
        for (long j = i * links / trips; j < (i + 1) * links / trips; j++) {
            long ahead = 1 + PICK(trips / 4);
            if (i + ahead < trips) add(2 * i + 2, 2 * (i + ahead) + 1, 1, ahead / 10 + PICK(300));
        }
    }
#undef PICK
}

int main(int count, char **words) {
    long warm_up = -1;
    if (count == 2) {
        read_problem(words[1]);
    } else if (count == 6 && strcmp(words[1], "trips") == 0 && atol(words[2]) >= 4) {
        make_trips(atol(words[2]), atol(words[3]), (unsigned long)atol(words[4]));
        warm_up = atol(words[5]);
    } else {
        fprintf(stderr, "usage: mcf FILE, or mcf trips TRIPS LINKS SEED PIVOTS\n");
        return 2;
    }
    long pivots = solve(warm_up);
    printf("optimum %ld pivots %ld\n", check(), pivots);
    return 0;
}
