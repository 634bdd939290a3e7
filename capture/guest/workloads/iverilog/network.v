// SPDX-License-Identifier: GPL-2.0-or-later
// A grid of switches that send packets to one another, each at its own times: events of a network.
module switch #(parameter ID = 0) (
    input wire [31:0] from_west, input wire [31:0] from_north,
    output reg [31:0] to_east, output reg [31:0] to_south
);
    reg [31:0] state;
    reg [31:0] queue [0:7];
    reg [2:0] head, tail;
    integer sent;
    initial begin
        state = 32'h1234567 + ID * 32'd2654435761;
        head = 0; tail = 0; sent = 0; to_east = 0; to_south = 0;
        forever begin
            state = state * 32'd1103515245 + 32'd12345;
            #(1 + state[22:16]);
            if (head != tail) begin
                if (queue[head][8]) to_east <= queue[head] + 1;
                else to_south <= queue[head] + 32'd512;
                head = head + 1;
                sent = sent + 1;
            end else begin
                to_east <= state ^ {from_west[15:0], from_north[31:16]};
            end
        end
    end
    always @(from_west) begin queue[tail] = from_west ^ state; tail = tail + 1; end
    always @(from_north) begin queue[tail] = from_north + state; tail = tail + 1; end
endmodule

module network;
    parameter N = 64;
    wire [31:0] east [0:N * N - 1];
    wire [31:0] south [0:N * N - 1];
    genvar x, y;
    generate
        for (y = 0; y < N; y = y + 1) begin : row
            for (x = 0; x < N; x = x + 1) begin : column
                switch #(.ID(y * N + x)) s(
                    .from_west(east[y * N + (x + N - 1) % N]),
                    .from_north(south[((y + N - 1) % N) * N + x]),
                    .to_east(east[y * N + x]), .to_south(south[y * N + x]));
            end
        end
    endgenerate
    initial #100000 $finish;
endmodule
