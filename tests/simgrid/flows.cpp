/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * When do flows end that share links max-min fairly? SimGrid's answer.
 *
 * On standard input: the number of links, and the capacity of each in bytes/s;
 * the number of routes, and for each how many links it has and which; the
 * number of flows, and for each its start in s, its bytes and its route.
 * On standard output: the processor time in s that the simulation took, and
 * the end of each flow in s, one a line.
 */

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

struct Flow {
    double start_s;
    std::uint64_t size_bytes;
    std::size_t route;
};

struct Input {
    std::vector<double> capacities;
    std::vector<std::vector<std::size_t>> routes;
    std::vector<Flow> flows;
};

struct Ends {
    s4u::Host *from;
    s4u::Host *to;
};

static std::size_t read_count()
{
    std::size_t count = 0;
    std::cin >> count;
    return count;
}

static Input read_input()
{
    Input input;
    std::cin.exceptions(std::ios::failbit | std::ios::badbit);
    input.capacities.resize(read_count());
    for (auto &capacity : input.capacities)
        std::cin >> capacity;
    input.routes.resize(read_count());
    for (auto &links : input.routes) {
        links.resize(read_count());
        for (auto &link : links)
            std::cin >> link;
    }
    input.flows.resize(read_count());
    for (auto &flow : input.flows)
        std::cin >> flow.start_s >> flow.size_bytes >> flow.route;
    return input;
}

/* Only the fluid model: no latency, no protocol, all that doubles can hold. */
static void configure()
{
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/crosstraffic:0");
    s4u::Engine::set_config("network/latency-factor:1");
    s4u::Engine::set_config("network/bandwidth-factor:1");
    s4u::Engine::set_config("maxmin/precision:1e-12");
    s4u::Engine::set_config("surf/precision:1e-12");
}

/* A route is between two hosts, so that each needs a pair of its own: the
 * hosts are the rows and the columns of a square. They do nothing else. */
static std::vector<Ends> make_platform(const Input &input)
{
    auto *zone = s4u::create_full_zone("all");
    std::vector<const s4u::Link *> links;
    for (double capacity : input.capacities) {
        auto *link = zone->create_link(
            "link" + std::to_string(links.size()), capacity);
        links.push_back(link->set_latency(0.0)->seal());
    }
    const auto side = static_cast<std::size_t>(
        std::ceil(std::sqrt(static_cast<double>(input.routes.size()))));
    std::vector<s4u::Host *> rows;
    std::vector<s4u::Host *> columns;
    for (std::size_t at = 0; at < side; ++at) {
        const auto number = std::to_string(at);
        rows.push_back(zone->create_host("row" + number, 1.0)->seal());
        columns.push_back(zone->create_host("column" + number, 1.0)->seal());
    }
    std::vector<Ends> ends;
    for (const auto &route : input.routes) {
        auto *from = rows[ends.size() / side];
        auto *to = columns[ends.size() % side];
        std::vector<s4u::LinkInRoute> crossed;
        for (auto link : route)
            crossed.emplace_back(links[link]);
        zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr,
                        nullptr, crossed, false);
        ends.push_back({from, to});
    }
    zone->seal();
    return ends;
}

/* One actor is cheaper than one for each flow. */
static void start_all(const Input &input, const std::vector<Ends> &ends,
                      std::vector<s4u::CommPtr> &comms)
{
    std::vector<std::size_t> order(input.flows.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&input](std::size_t one, std::size_t other) {
                         return input.flows[one].start_s
                             < input.flows[other].start_s;
                     });
    for (auto number : order) {
        const auto &flow = input.flows[number];
        s4u::this_actor::sleep_until(flow.start_s);
        comms[number] = s4u::Comm::sendto_async(
            ends[flow.route].from, ends[flow.route].to, flow.size_bytes);
    }
    for (auto &comm : comms)
        comm->wait();
}

int main(int argc, char **argv)
{
    s4u::Engine engine(&argc, argv);
    configure();
    const Input input = read_input();
    const auto ends = make_platform(input);
    std::vector<s4u::CommPtr> comms(input.flows.size());
    s4u::Actor::create("starter", ends.front().from, [&] {
        start_all(input, ends, comms);
    });
    const auto began = std::clock();
    engine.run();
    const auto took = static_cast<double>(std::clock() - began);
    std::printf("%.9g\n", took / CLOCKS_PER_SEC);
    for (const auto &comm : comms)
        std::printf("%.17g\n", comm->get_finish_time());
    return 0;
}
