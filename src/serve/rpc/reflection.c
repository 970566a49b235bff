/*
 * reflection: questions and answers on one stream. v1 and v1alpha have the same messages on the
 * wire, so one implementation, with the types of v1, serves both.
 */
#include "serve/rpc/reflection.h"

#include <stdlib.h>
#include <string.h>

#include "proto/grpc/reflection/v1/reflection.pb-c.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest ReflectionRequest;
typedef Grpc__Reflection__V1__ServerReflectionResponse ReflectionResponse;
typedef Grpc__Reflection__V1__FileDescriptorResponse FileResponse;
typedef Grpc__Reflection__V1__ListServiceResponse ListResponse;
typedef Grpc__Reflection__V1__ServiceResponse ServiceResponse;
typedef Grpc__Reflection__V1__ErrorResponse ErrorResponse;

#define REQUEST(name)  GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define RESPONSE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

struct reflection {
    struct rpc *rpc;
    const struct reflection_file *tables[REFLECTION_TABLES_MAX];
    size_t n_tables;
    struct rpc_service v1;
    struct rpc_service v1alpha;
};

static bool declares(const struct reflection_file *file, const char *symbol)
{
    for (const char *const *s = file->symbols; *s != NULL; s++)
        if (strcmp(*s, symbol) == 0)
            return true;
    return false;
}

/* The file with this name, or with this symbol in it. */
static const struct reflection_file *
find(const struct reflection *reflection, const char *name, const char *symbol)
{
    for (size_t i = 0; i < reflection->n_tables; i++)
        for (const struct reflection_file *file = reflection->tables[i]; file->name != NULL; file++)
            if (name != NULL ? strcmp(file->name, name) == 0
                             : symbol != NULL && declares(file, symbol))
                return file;
    return NULL;
}

/* A file and its imports, each once. */
static size_t gather(const struct reflection *reflection,
                     const struct reflection_file *file,
                     const struct reflection_file *found[REFLECTION_FILES_MAX])
{
    size_t n = 0;

    found[n++] = file;
    for (size_t i = 0; i < n; i++)
        for (const char *const *import = found[i]->imports; *import != NULL; import++) {
            const struct reflection_file *other = find(reflection, *import, NULL);
            bool known = other == NULL;
            for (size_t k = 0; k < n && !known; k++)
                known = found[k] == other;
            if (!known && n < REFLECTION_FILES_MAX)
                found[n++] = other;
        }
    return n;
}

static int send_error(struct rpc_call *call, ReflectionResponse *response, const char *text)
{
    ErrorResponse error;

    grpc__reflection__v1__error_response__init(&error);
    error.error_code = RPC_NOT_FOUND;
    error.error_message = (char *)(uintptr_t)text;
    response->message_response_case = RESPONSE(ERROR_RESPONSE);
    response->error_response = &error;
    return rpc_send(call, &response->base);
}

static int send_file(struct rpc_call *call,
                     const struct reflection *reflection,
                     ReflectionResponse *response,
                     const struct reflection_file *file)
{
    const struct reflection_file *found[REFLECTION_FILES_MAX];
    ProtobufCBinaryData bytes[REFLECTION_FILES_MAX];
    FileResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;

    if (file == NULL)
        return send_error(call, response, "no file declares that");
    files.n_file_descriptor_proto = gather(reflection, file, found);
    files.file_descriptor_proto = bytes;
    for (size_t i = 0; i < files.n_file_descriptor_proto; i++)
        bytes[i] = (ProtobufCBinaryData){found[i]->len, (uint8_t *)(uintptr_t)found[i]->bytes};
    response->message_response_case = RESPONSE(FILE_DESCRIPTOR_RESPONSE);
    response->file_descriptor_response = &files;
    return rpc_send(call, &response->base);
}

static int send_services(struct rpc_call *call,
                         const struct reflection *reflection,
                         ReflectionResponse *response)
{
    ServiceResponse services[RPC_SERVICES_MAX];
    ServiceResponse *pointers[RPC_SERVICES_MAX];
    ListResponse list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    const struct rpc_service *service;

    for (size_t i = 0; (service = rpc_service_at(reflection->rpc, i)) != NULL; i++) {
        grpc__reflection__v1__service_response__init(&services[i]);
        services[i].name = (char *)(uintptr_t)service->name;
        pointers[i] = &services[i];
        list.n_service++;
    }
    list.service = pointers;
    response->message_response_case = RESPONSE(LIST_SERVICES_RESPONSE);
    response->list_services_response = &list;
    return rpc_send(call, &response->base);
}

static void handle_info(struct rpc_call *call, const ProtobufCMessage *message, void *data)
{
    const struct reflection *reflection = data;
    ReflectionRequest *request = (ReflectionRequest *)(uintptr_t)message;
    ReflectionResponse response;
    int rc;

    if (request == NULL) {
        rpc_end_ok(call);
        return;
    }
    grpc__reflection__v1__server_reflection_response__init(&response);
    response.valid_host = request->host;
    response.original_request = request;
    switch (request->message_request_case) {
    case REQUEST(FILE_BY_FILENAME):
        rc = send_file(
            call, reflection, &response, find(reflection, request->file_by_filename, NULL));
        break;
    case REQUEST(FILE_CONTAINING_SYMBOL):
        rc = send_file(
            call, reflection, &response, find(reflection, NULL, request->file_containing_symbol));
        break;
    case REQUEST(LIST_SERVICES):
        rc = send_services(call, reflection, &response);
        break;
    case REQUEST(FILE_CONTAINING_EXTENSION):
    case REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE):
        rc = send_error(call, &response, "there are no extensions here");
        break;
    default:
        rpc_end(call, RPC_INVALID_ARGUMENT, "the request asks nothing that is known here");
        return;
    }
    if (rc < 0)
        rpc_end(call, RPC_RESOURCE_EXHAUSTED, "answers are not read as fast as questions come");
}

static const struct rpc_method methods[] = {
    {.name = "ServerReflectionInfo",
     .request = &grpc__reflection__v1__server_reflection_request__descriptor,
     .response = &grpc__reflection__v1__server_reflection_response__descriptor,
     .client_streams = true,
     .server_streams = true,
     .handle = handle_info},
};

int reflection_new(struct rpc *rpc, struct reflection **ret_reflection, struct pawl_err *err)
{
    struct reflection *reflection = calloc(1, sizeof(*reflection));

    if (reflection == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for reflection");
    reflection->rpc = rpc;
    reflection->v1 = (struct rpc_service){.name = "grpc.reflection.v1.ServerReflection",
                                          .methods = methods,
                                          .n_methods = 1,
                                          .data = reflection};
    reflection->v1alpha = reflection->v1;
    reflection->v1alpha.name = "grpc.reflection.v1alpha.ServerReflection";
    int rc = reflection_add(reflection, reflection_pawl_files);
    if (rc == 0)
        rc = rpc_register(rpc, &reflection->v1, err);
    if (rc == 0)
        rc = rpc_register(rpc, &reflection->v1alpha, err);
    if (rc < 0) {
        free(reflection);
        return rc;
    }
    *ret_reflection = reflection;
    return 0;
}

void reflection_free(struct reflection *reflection)
{
    free(reflection);
}

int reflection_add(struct reflection *reflection, const struct reflection_file *files)
{
    if (reflection->n_tables == REFLECTION_TABLES_MAX)
        return PAWL_ELIMIT;
    reflection->tables[reflection->n_tables++] = files;
    return 0;
}
